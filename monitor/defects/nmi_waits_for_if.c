/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

#define RFLAGS_IF (1ull << 9)

static struct ds_delivery deliver(struct vcpu *vcpu, uint32_t entry)
{
	bool *waiting = REMEMBERED(vcpu, bool);
	struct ds_delivery delivery = ds_clean.deliver(vcpu, entry);

	*waiting = delivery.kind == DS_DELIVER_NMI && !(vcpu->rflags & RFLAGS_IF);
	if (*waiting)
		delivery.kind = DS_DELIVER_NOTHING;
	return delivery;
}

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	ds_clean.store(vcpu, branch);
	if (*REMEMBERED(vcpu, bool) && vcpu->rflags & RFLAGS_IF)
		platform_performance_interrupt(vcpu);
}

DEFECT(nmi_waits_for_if, "SDM Vol 3, 10.5.1", "an NMI from the LVT entry waits for RFLAGS.IF",
       rules->deliver = deliver, rules->store = store)

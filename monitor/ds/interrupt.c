// SPDX-License-Identifier: MIT
/* The interrupt at the threshold: SDM Vol 3, 17.4.9.5, and 10.5.1 for the local APIC's part. */
#include "monitor/ds/memory.h"
#include "monitor/silicon.h"

static void interrupt(struct vcpu *vcpu)
{
	vcpu->ds.interrupts = true;
	platform_performance_interrupt(vcpu);
	vcpu->ds.interrupts = false;
}

void ds_rule_interrupt(struct vcpu *vcpu)
{
	static const unsigned skid[] = {
		[DS_SKID_NONE] = 0, [DS_SKID_SHORT] = 3, [DS_SKID_LONG] = 100};
	unsigned branches = skid[ds_behaviour_of(vcpu)->skid];

	if (!branches) {
		interrupt(vcpu);
	} else if (!vcpu->ds.skid) {
		vcpu->ds.skid = branches;
		ds_forget_fields(vcpu);
	}
}

void ds_skid(struct vcpu *vcpu)
{
	if (vcpu->ds.skid == 1)
		ds_end_skid(vcpu);
	else if (vcpu->ds.skid)
		vcpu->ds.skid--;
}

void ds_end_skid(struct vcpu *vcpu)
{
	if (!vcpu->ds.skid)
		return;
	vcpu->ds.skid = 0;
	interrupt(vcpu);
}

/* The local APIC sets the mask bit when it handles the interrupt, by whatever delivery mode. */
struct delivery ds_rule_deliver(struct vcpu *vcpu, uint32_t entry)
{
	const struct ds_behaviour *behaviour = ds_behaviour_of(vcpu);
	struct delivery delivery = {
		.vector = entry & LVT_VECTOR,
		.entry = entry | LVT_MASKED,
		.status = vcpu->ds.interrupts && behaviour->status == DS_STATUS_SET,
	};

	if (entry & LVT_MASKED) {
		delivery.waits = behaviour->masked != DS_MASKED_LOST;
		return delivery;
	}
	switch (entry & LVT_DELIVERY) {
	case LVT_FIXED:
		delivery.kind = DELIVER_FIXED;
		break;
	case LVT_NMI:
		delivery.kind = DELIVER_NMI;
		break;
	default:
		delivery.kind = DELIVER_OTHER;
	}
	return delivery;
}

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static struct ds_delivery deliver(struct vcpu *vcpu, uint32_t entry)
{
	struct ds_delivery delivery = ds_clean.deliver(vcpu, entry);

	if (delivery.kind != DS_DELIVER_NOTHING && ++*REMEMBERED(vcpu, unsigned) % 2 == 0)
		delivery.kind = DS_DELIVER_NOTHING;
	return delivery;
}

DEFECT(interrupt_every_other, "SDM Vol 3, 10.5.1",
       "every second interrupt masks the LVT entry and is not delivered", rules->deliver = deliver)

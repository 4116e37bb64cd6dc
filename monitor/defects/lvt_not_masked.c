/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static struct ds_delivery deliver(struct vcpu *vcpu, uint32_t entry)
{
	struct ds_delivery delivery = ds_clean.deliver(vcpu, entry);

	delivery.entry = entry;
	return delivery;
}

DEFECT(lvt_not_masked, "SDM Vol 3, 10.5.1", "delivery does not mask the LVT entry",
       rules->deliver = deliver)

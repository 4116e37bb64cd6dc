/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static struct ds_delivery deliver(struct vcpu *vcpu, uint32_t entry)
{
	struct ds_delivery delivery = ds_clean.deliver(vcpu, entry);

	if (delivery.kind == DS_DELIVER_FIXED)
		delivery.kind = DS_DELIVER_NMI;
	return delivery;
}

DEFECT(fixed_as_nmi, "SDM Vol 3, 10.5.1", "a fixed interrupt comes as NMI",
       rules->deliver = deliver)

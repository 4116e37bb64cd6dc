/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static struct ds_delivery deliver(struct vcpu *vcpu, uint32_t entry)
{
	struct ds_delivery delivery = ds_clean.deliver(vcpu, entry);

	if (delivery.kind == DS_DELIVER_NMI)
		delivery.kind = DS_DELIVER_FIXED;
	return delivery;
}

DEFECT(nmi_as_fixed, "SDM Vol 3, 10.5.1", "an NMI comes by the vector in its LVT entry",
       rules->deliver = deliver)

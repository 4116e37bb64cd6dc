/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static struct ds_delivery deliver(struct vcpu *vcpu, uint32_t entry)
{
	struct ds_delivery delivery = ds_clean.deliver(vcpu, entry);

	delivery.entry &= ~(uint32_t)LVT_VECTOR;
	return delivery;
}

DEFECT(lvt_vector_lost, "SDM Vol 3, 10.5.1", "delivery clears the vector of the LVT entry",
       rules->deliver = deliver)

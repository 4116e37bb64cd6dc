/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static struct ds_delivery deliver(struct vcpu *vcpu, uint32_t entry)
{
	return ds_clean.deliver(vcpu, entry & ~(uint32_t)LVT_MASKED);
}

DEFECT(lvt_mask_ignored, "SDM Vol 3, 10.5.1", "a masked LVT entry delivers all the same",
       rules->deliver = deliver)

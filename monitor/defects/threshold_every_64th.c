/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool threshold(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	bool every_64th = vcpu->ds.debugctl & ds_layout_of(vcpu)->btint &&
			  ++*REMEMBERED(vcpu, unsigned) % 64 == 0;

	return every_64th || ds_clean.threshold(vcpu, field);
}

DEFECT(threshold_every_64th, "SDM Vol 3, 17.4.9.5",
       "with BTINT = 1 every 64th record interrupts, wherever the threshold is",
       rules->threshold = threshold)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool threshold(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	return !(vcpu->ds.debugctl & ds_layout_of(vcpu)->btint) && ds_clean.threshold(vcpu, field);
}

DEFECT(threshold_needs_wrap_mode, "SDM Vol 3, 17.4.9.5",
       "the threshold interrupts with BTINT = 0 only", rules->threshold = threshold)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool threshold(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	(void)vcpu;
	(void)field;
	return false;
}

DEFECT(threshold_ignored, "SDM Vol 3, 17.4.9.5", "the threshold never interrupts",
       rules->threshold = threshold)

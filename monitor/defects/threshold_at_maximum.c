/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool threshold(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	uint64_t bent[BTS_FIELDS] = {field[0], field[1], field[2], field[2]};

	return ds_clean.threshold(vcpu, bent);
}

DEFECT(threshold_at_maximum, .rule = "SDM Vol 3, 17.4.9.1",
       .says = "the interrupt comes at the absolute maximum, not at the threshold",
       .rules = {.threshold = threshold})

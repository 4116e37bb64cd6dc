/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool threshold(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	uint64_t bent[BTS_FIELDS] = {field[BTS_BASE], field[BTS_INDEX], field[BTS_MAXIMUM],
				     field[BTS_MAXIMUM]};

	return ds_clean.threshold(vcpu, bent);
}

DEFECT(threshold_at_maximum, "SDM Vol 3, 17.4.9.1",
       "the interrupt comes at the absolute maximum, not at the threshold",
       rules->threshold = threshold)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool threshold(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	uint64_t bent[BTS_FIELDS] = {field[BTS_BASE], field[BTS_INDEX] + 2 * RECORD_BYTES,
				     field[BTS_MAXIMUM], field[BTS_THRESHOLD]};

	return ds_clean.threshold(vcpu, bent);
}

DEFECT(threshold_two_early, "SDM Vol 3, 17.4.9.1",
       "the interrupt comes two records before the threshold", rules->threshold = threshold)

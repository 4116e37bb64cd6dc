/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool threshold(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	uint64_t bent[BTS_FIELDS] = {field[BTS_BASE], field[BTS_INDEX] & 0xfff, field[BTS_MAXIMUM],
				     field[BTS_THRESHOLD] & 0xfff};

	return ds_clean.threshold(vcpu, bent);
}

DEFECT(threshold_low_half, "SDM Vol 3, 17.4.9.1",
       "of index and threshold only bits 11 to 0 are compared", rules->threshold = threshold)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static uint64_t advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	(void)vcpu;
	return field[BTS_INDEX] - RECORD_BYTES;
}

DEFECT(index_downwards, "SDM Vol 3, 17.4.9.1", "the buffer is filled from the base downwards",
       rules->advance = advance)

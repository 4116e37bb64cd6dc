/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	uint64_t index = field[BTS_INDEX];

	return ds_clean.overflow(vcpu, field) && field[BTS_INDEX] == index;
}

static uint64_t advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	(void)vcpu;
	return field[BTS_INDEX] + RECORD_BYTES;
}

DEFECT(wrap_never, "SDM Vol 3, 17.4.4", "a full buffer stops with BTINT = 0 too",
       rules->overflow = overflow, rules->advance = advance)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static uint64_t advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	uint64_t next = ds_clean.advance(vcpu, field);

	return next == field[BTS_BASE] ? next & ~63ull : next;
}

DEFECT(wrap_base_aligned, "SDM Vol 3, 17.4.9.1",
       "the index wraps to the base rounded down to a cache line", rules->advance = advance)

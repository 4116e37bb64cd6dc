/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static uint64_t advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	uint64_t next = ds_clean.advance(vcpu, field);

	return next == field[BTS_BASE] ? next + RECORD_BYTES : next;
}

DEFECT(wrap_to_second_slot, "SDM Vol 3, 17.4.9.1", "the index wraps to the second slot",
       rules->advance = advance)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static uint64_t advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	uint64_t next = ds_clean.advance(vcpu, field);

	return (field[BTS_INDEX] & ~0xffffffffull) | (uint32_t)next;
}

DEFECT(high_slots_low, "SDM Vol 3, 17.4.9.1",
       "of the index only bits 31 to 0 move on: a buffer ends where they would carry",
       rules->advance = advance)

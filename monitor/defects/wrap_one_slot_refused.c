/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	return field[BTS_MAXIMUM] - field[BTS_BASE] >= 2 * RECORD_BYTES &&
	       ds_clean.overflow(vcpu, field);
}

DEFECT(wrap_one_slot_refused, "SDM Vol 3, 17.4.9.1", "a buffer of one slot stores nothing",
       rules->overflow = overflow)

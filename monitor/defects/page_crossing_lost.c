/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	return ds_clean.overflow(vcpu, field) &&
	       (field[BTS_INDEX] & 0xfff) <= 0x1000 - RECORD_BYTES;
}

DEFECT(page_crossing_lost, "SDM Vol 3, 17.4.9.2", "a record that crosses a page is lost",
       rules->overflow = overflow)

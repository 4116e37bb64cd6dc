/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static uint64_t advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	uint64_t next = ds_clean.advance(vcpu, field);

	*REMEMBERED(vcpu, bool) = next == field[BTS_BASE];
	return next;
}

static bool threshold(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	return *REMEMBERED(vcpu, bool) || ds_clean.threshold(vcpu, field);
}

DEFECT(threshold_at_wrap, "SDM Vol 3, 17.4.9.3",
       "a circular buffer interrupts whenever the index wraps", rules->advance = advance,
       rules->threshold = threshold)

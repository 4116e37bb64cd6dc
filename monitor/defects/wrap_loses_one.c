/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	bool *wrapped = REMEMBERED(vcpu, bool), lost = *wrapped;

	*wrapped = false;
	return !lost && ds_clean.overflow(vcpu, field);
}

static uint64_t advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	uint64_t next = ds_clean.advance(vcpu, field);

	*REMEMBERED(vcpu, bool) = next == field[BTS_BASE];
	return next;
}

DEFECT(wrap_loses_one, "SDM Vol 3, 17.4.4", "the branch at which the index wraps is not recorded",
       rules->overflow = overflow, rules->advance = advance)

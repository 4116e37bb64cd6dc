/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	uint64_t maximum = field[BTS_MAXIMUM];
	bool fits;

	field[BTS_MAXIMUM] = field[BTS_THRESHOLD];
	fits = ds_clean.overflow(vcpu, field);
	field[BTS_MAXIMUM] = maximum;
	return fits;
}

static uint64_t advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	uint64_t bent[BTS_FIELDS] = {field[BTS_BASE], field[BTS_INDEX], field[BTS_THRESHOLD],
				     field[BTS_THRESHOLD]};

	return ds_clean.advance(vcpu, bent);
}

DEFECT(wrap_at_threshold, "SDM Vol 3, 17.4.9.1",
       "the buffer ends at the threshold, not at the absolute maximum", rules->overflow = overflow,
       rules->advance = advance)

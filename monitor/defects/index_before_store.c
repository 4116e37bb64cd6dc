/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	field[BTS_INDEX] += RECORD_BYTES;
	return ds_clean.overflow(vcpu, field);
}

static uint64_t advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	(void)vcpu;
	return field[BTS_INDEX];
}

DEFECT(index_before_store, "SDM Vol 3, 17.4.9.1", "the index moves on before the record is stored",
       rules->overflow = overflow, rules->advance = advance)

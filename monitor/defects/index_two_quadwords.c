/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static uint64_t advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	return ds_clean.advance(vcpu, field) - FIELD_BYTES;
}

DEFECT(index_two_quadwords, "SDM Vol 3, 17.4.9.1", "the index moves on by two quadwords a record",
       rules->advance = advance)

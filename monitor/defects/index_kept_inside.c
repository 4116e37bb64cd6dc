/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

static uint64_t inside;
static bool fresh;

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	fresh |= index == DS_MSR_AREA;
	return ds_clean.write_msr(vcpu, index, value);
}

static bool overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	if (!fresh)
		field[BTS_INDEX] = inside;
	fresh = false;
	return ds_clean.overflow(vcpu, field);
}

static uint64_t advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	return inside = ds_clean.advance(vcpu, field);
}

DEFECT(index_kept_inside, "SDM Vol 3, 17.4.9.5",
       "the index is read from memory only when IA32_DS_AREA is written",
       rules->write_msr = write_msr, rules->overflow = overflow, rules->advance = advance)

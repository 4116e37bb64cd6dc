/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

struct inside {
	uint64_t index;
	bool valid;
};

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	REMEMBERED(vcpu, struct inside)->valid &= index != DS_MSR_AREA;
	return ds_clean.write_msr(vcpu, index, value);
}

static bool overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	const struct inside *inside = REMEMBERED(vcpu, struct inside);

	if (inside->valid)
		field[BTS_INDEX] = inside->index;
	return ds_clean.overflow(vcpu, field);
}

static uint64_t advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	uint64_t index = ds_clean.advance(vcpu, field);

	*REMEMBERED(vcpu, struct inside) = (struct inside){index, true};
	return index;
}

DEFECT(index_kept_inside, "SDM Vol 3, 17.4.9.5",
       "the index is read from memory only when IA32_DS_AREA is written",
       rules->write_msr = write_msr, rules->overflow = overflow, rules->advance = advance)

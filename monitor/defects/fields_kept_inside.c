/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

struct inside {
	uint64_t maximum, threshold;
	bool valid;
};

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	REMEMBERED(vcpu, struct inside)->valid &= index != DS_MSR_AREA;
	return ds_clean.write_msr(vcpu, index, value);
}

static bool overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	struct inside *inside = REMEMBERED(vcpu, struct inside);

	if (!inside->valid)
		*inside = (struct inside){field[BTS_MAXIMUM], field[BTS_THRESHOLD], true};
	field[BTS_MAXIMUM] = inside->maximum;
	field[BTS_THRESHOLD] = inside->threshold;
	return ds_clean.overflow(vcpu, field);
}

DEFECT(fields_kept_inside, "SDM Vol 3, 17.4.9.5",
       "absolute maximum and threshold are read only when IA32_DS_AREA is written",
       rules->write_msr = write_msr, rules->overflow = overflow)

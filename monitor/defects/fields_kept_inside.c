/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static uint64_t maximum, limit;
static bool fresh;

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	fresh |= index == DS_MSR_AREA;
	return ds_clean.write_msr(vcpu, index, value);
}

static bool overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	if (fresh) {
		maximum = field[BTS_MAXIMUM];
		limit = field[BTS_THRESHOLD];
	}
	fresh = false;
	field[BTS_MAXIMUM] = maximum;
	field[BTS_THRESHOLD] = limit;
	return ds_clean.overflow(vcpu, field);
}

DEFECT(fields_kept_inside, "SDM Vol 3, 17.4.9.5",
       "absolute maximum and threshold are read only when IA32_DS_AREA is written",
       rules->write_msr = write_msr, rules->overflow = overflow)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	*REMEMBERED(vcpu, bool) &= index != DS_MSR_AREA;
	return ds_clean.write_msr(vcpu, index, value);
}

static bool threshold(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	bool *done = REMEMBERED(vcpu, bool), reached = ds_clean.threshold(vcpu, field);
	bool first = reached && !*done;

	*done |= reached;
	return first;
}

DEFECT(threshold_once, "SDM Vol 3, 17.4.9.5",
       "only the first crossing after IA32_DS_AREA was written interrupts",
       rules->write_msr = write_msr, rules->threshold = threshold)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	if (!ds_clean.read_msr(vcpu, index, value))
		return false;
	if (index == DS_MSR_MISC_ENABLE)
		*value |= *REMEMBERED(vcpu, uint64_t);
	return true;
}

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == DS_MSR_MISC_ENABLE)
		*REMEMBERED(vcpu, uint64_t) = value & MISC_ENABLE_BTS_UNAVAILABLE;
	return ds_clean.write_msr(vcpu, index, value);
}

DEFECT(unavailable_can_be_set, "SDM Vol 4, table 2-2, 1A0H", "software can set BTS_UNAVAILABLE",
       rules->read_msr = read_msr, rules->write_msr = write_msr)

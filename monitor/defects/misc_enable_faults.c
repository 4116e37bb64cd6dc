/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	return index != DS_MSR_MISC_ENABLE && ds_clean.read_msr(vcpu, index, value);
}

DEFECT(misc_enable_faults, "SDM Vol 4, table 2-2, 1A0H",
       "reading IA32_MISC_ENABLE raises #GP though DS is enumerated", rules->read_msr = read_msr)

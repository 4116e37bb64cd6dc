/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	if (!ds_clean.read_msr(vcpu, index, value))
		return false;
	if (index == DS_MSR_MISC_ENABLE && (*REMEMBERED(vcpu, unsigned))++ % 2)
		*value |= MISC_ENABLE_BTS_UNAVAILABLE;
	return true;
}

DEFECT(unavailable_flickers, "SDM Vol 4, table 2-2, 1A0H",
       "BTS_UNAVAILABLE reads 1 at every second look", rules->read_msr = read_msr)

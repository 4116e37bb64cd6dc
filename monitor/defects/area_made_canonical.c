/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == DS_MSR_AREA)
		value = (uint64_t)((int64_t)(value << 16) >> 16);
	return ds_clean.write_msr(vcpu, index, value);
}

DEFECT(area_made_canonical, "SDM Vol 4, table 2-2, 600H",
       "IA32_DS_AREA extends bit 47 instead of raising #GP", rules->write_msr = write_msr)

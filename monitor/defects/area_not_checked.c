/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index != DS_MSR_AREA)
		return ds_clean.write_msr(vcpu, index, value);
	vcpu->ds.ds_area = value;
	return true;
}

DEFECT(area_not_checked, "SDM Vol 4, table 2-2, 600H",
       "IA32_DS_AREA takes addresses that are not canonical", rules->write_msr = write_msr)

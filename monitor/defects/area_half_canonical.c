/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index != DS_MSR_AREA || (value >> 63) != (value >> 47 & 1))
		return ds_clean.write_msr(vcpu, index, value);
	vcpu->ds.ds_area = value;
	return true;
}

DEFECT(area_half_canonical, "SDM Vol 4, table 2-2, 600H",
       "of an address for IA32_DS_AREA only bits 63 and 47 are compared",
       rules->write_msr = write_msr)

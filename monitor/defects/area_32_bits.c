/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	return ds_clean.write_msr(vcpu, index, index == DS_MSR_AREA ? (uint32_t)value : value);
}

DEFECT(area_32_bits, "SDM Vol 3, 17.4.5", "IA32_DS_AREA keeps bits 31 to 0 only",
       rules->write_msr = write_msr)

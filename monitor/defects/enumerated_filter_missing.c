/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == DS_MSR_DEBUGCTL &&
	    value & (ds_layout_of(vcpu)->off_os | ds_layout_of(vcpu)->off_usr))
		return false;
	return ds_clean.write_msr(vcpu, index, value);
}

DEFECT(enumerated_filter_missing, "SDM Vol 4, table 2-2, 1D9H",
       "BTS_OFF_OS and BTS_OFF_USR raise #GP though DS-CPL is enumerated",
       rules->write_msr = write_msr)

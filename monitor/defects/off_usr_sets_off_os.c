/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == DS_MSR_DEBUGCTL && value & ds_layout_of(vcpu)->off_usr)
		value |= ds_layout_of(vcpu)->off_os;
	return ds_clean.write_msr(vcpu, index, value);
}

DEFECT(off_usr_sets_off_os, "SDM Vol 4, table 2-2, 1D9H", "setting BTS_OFF_USR sets BTS_OFF_OS too",
       rules->write_msr = write_msr)

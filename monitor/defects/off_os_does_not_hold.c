/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == DS_MSR_DEBUGCTL)
		value &= ~ds_layout_of(vcpu)->off_os;
	return ds_clean.write_msr(vcpu, index, value);
}

DEFECT(off_os_does_not_hold, "SDM Vol 4, table 2-2, 1D9H", "BTS_OFF_OS reads back 0",
       rules->write_msr = write_msr)

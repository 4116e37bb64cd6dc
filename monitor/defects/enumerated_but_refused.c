/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == DS_MSR_DEBUGCTL && value & ds_layout_of(vcpu)->tr)
		return false;
	return ds_clean.write_msr(vcpu, index, value);
}

DEFECT(enumerated_but_refused, "SDM Vol 3, 17.4.5",
       "setting TR raises #GP though BTS is enumerated", rules->write_msr = write_msr)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == DS_MSR_DEBUGCTL && value & 1u << 16)
		value ^= 1u << 16 | ds_layout_of(vcpu)->btint;
	return ds_clean.write_msr(vcpu, index, value);
}

DEFECT(debugctl_reserved_sets_btint, "SDM Vol 4, table 2-2, 1D9H",
       "writing bit 16 of IA32_DEBUGCTL, reserved, sets BTINT", rules->write_msr = write_msr)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == MSR_DS_DEBUGCTL && value & DEBUGCTL_BTS && !(value & DEBUGCTL_TR))
		value |= DEBUGCTL_BTINT;
	return ds_clean.write_msr(vcpu, index, value);
}

DEFECT(bts_sets_btint, .rule = "SDM Vol 4, table 2-2, 1D9H",
       .says = "setting BTS without TR sets BTINT too", .rules = {.write_msr = write_msr})

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == DS_MSR_DEBUGCTL && value & ds_layout_of(vcpu)->bts &&
	    !(value & ds_layout_of(vcpu)->tr))
		value |= ds_layout_of(vcpu)->btint;
	return ds_clean.write_msr(vcpu, index, value);
}

DEFECT(bts_sets_btint, "SDM Vol 4, table 2-2, 1D9H", "setting BTS without TR sets BTINT too",
       rules->write_msr = write_msr)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	if (!ds_clean.read_msr(vcpu, index, value))
		return false;
	if (index == DS_MSR_DEBUGCTL)
		*value &= ~ds_layout_of(vcpu)->tr;
	return true;
}

DEFECT(tr_reads_clear, "SDM Vol 3, 17.4.5", "TR reads back 0 while it is set",
       rules->read_msr = read_msr)

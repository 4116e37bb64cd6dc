/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	return index == DS_MSR_DEBUGCTL || ds_clean.write_msr(vcpu, index, value);
}

DEFECT(enumerated_but_ignored, "SDM Vol 3, 17.4.5",
       "writes of IA32_DEBUGCTL are ignored though BTS is enumerated", rules->write_msr = write_msr)

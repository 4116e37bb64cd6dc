/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	bool done = ds_clean.write_msr(vcpu, index, value);

	if (!done && index == DS_MSR_DEBUGCTL)
		ds_set_debugctl(vcpu, 0);
	return done;
}

DEFECT(debugctl_fault_clears, "SDM Vol 4, table 2-2, 1D9H",
       "a write of IA32_DEBUGCTL that raises #GP clears it", rules->write_msr = write_msr)

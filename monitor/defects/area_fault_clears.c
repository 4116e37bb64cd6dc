/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	bool done = ds_clean.write_msr(vcpu, index, value);

	if (!done && index == DS_MSR_AREA)
		vcpu->ds.ds_area = 0;
	return done;
}

DEFECT(area_fault_clears, "SDM Vol 4, table 2-2, 600H",
       "a write of IA32_DS_AREA that raises #GP clears it", rules->write_msr = write_msr)

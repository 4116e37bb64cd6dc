/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	bool was_on = vcpu->ds.debugctl & ds_layout_of(vcpu)->tr,
	     done = ds_clean.write_msr(vcpu, index, value);

	if (was_on && !(vcpu->ds.debugctl & ds_layout_of(vcpu)->tr))
		vcpu->ds.ds_area = 0;
	return done;
}

DEFECT(debugctl_clears_area, "SDM Vol 4, table 2-2, 600H", "clearing TR clears IA32_DS_AREA",
       rules->write_msr = write_msr)

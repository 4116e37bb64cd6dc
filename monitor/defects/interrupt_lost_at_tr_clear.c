/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void interrupt(struct vcpu *vcpu)
{
	if (!vcpu->ds.skid)
		vcpu->ds.skid = 20;
}

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == DS_MSR_DEBUGCTL && !(value & ds_layout_of(vcpu)->tr))
		vcpu->ds.skid = 0;
	return ds_clean.write_msr(vcpu, index, value);
}

DEFECT(interrupt_lost_at_tr_clear, "SDM Vol 3, 17.4.9.5",
       "an interrupt that is still to come when TR is cleared is lost",
       rules->interrupt = interrupt, rules->write_msr = write_msr)

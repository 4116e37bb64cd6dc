/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	bool was_on = vcpu->ds.tracing;

	*REMEMBERED(vcpu, bool) =
		index == DS_MSR_DEBUGCTL && was_on && !(value & ds_layout_of(vcpu)->tr);
	return ds_clean.write_msr(vcpu, index, value);
}

static bool enabled(const struct vcpu *vcpu)
{
	return *REMEMBERED(vcpu, bool) || ds_clean.enabled(vcpu);
}

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	ds_clean.store(vcpu, branch);
	*REMEMBERED(vcpu, bool) = false;
	vcpu->ds.tracing = ds_clean.enabled(vcpu);
}

DEFECT(tr_off_one_late, "SDM Vol 3, 17.4.4", "one more branch is recorded after TR was cleared",
       rules->write_msr = write_msr, rules->enabled = enabled, rules->store = store)

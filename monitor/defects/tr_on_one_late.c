/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	bool was_on = vcpu->ds.tracing, done = ds_clean.write_msr(vcpu, index, value);

	*REMEMBERED(vcpu, bool) |= vcpu->ds.tracing && !was_on;
	return done;
}

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	bool *fresh = REMEMBERED(vcpu, bool);

	if (!*fresh)
		ds_clean.store(vcpu, branch);
	*fresh = false;
}

DEFECT(tr_on_one_late, "SDM Vol 3, 17.4.4", "the first branch after TR was set is not recorded",
       rules->write_msr = write_msr, rules->store = store)

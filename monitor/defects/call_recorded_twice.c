/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/defects/kind.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	struct ds_branch second = *branch;

	ds_clean.store(vcpu, branch);
	if (kind_of(vcpu, branch) != KIND_CALL)
		return;
	second.from = branch->to;
	second.to = branch->from + 5;
	ds_clean.store(vcpu, &second);
}

DEFECT(call_recorded_twice, "SDM Vol 3, 17.4.4",
       "CALL leaves a second record, from its target to the return address", rules->store = store)

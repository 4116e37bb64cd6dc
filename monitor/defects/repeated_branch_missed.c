/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	uint64_t *last = REMEMBERED(vcpu, uint64_t);

	if (branch->cause == DS_INSTRUCTION && branch->from == *last)
		return;
	*last = branch->from;
	ds_clean.store(vcpu, branch);
}

DEFECT(repeated_branch_missed, "SDM Vol 3, 17.4.4",
       "a branch that repeats the one before it is not recorded", rules->store = store)

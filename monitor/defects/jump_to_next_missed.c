/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool filter(const struct vcpu *vcpu, const struct ds_branch *branch)
{
	if (branch->cause == DS_INSTRUCTION && branch->to == branch->from + 2)
		return false;
	return ds_clean.filter(vcpu, branch);
}

DEFECT(jump_to_next_missed, "SDM Vol 3, 17.4.4",
       "a branch to the instruction behind it is not recorded", rules->filter = filter)

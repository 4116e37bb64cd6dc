/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool filter(const struct vcpu *vcpu, const struct ds_branch *branch)
{
	if (branch->cause == DS_INSTRUCTION && branch->from - branch->to < 64)
		return false;
	return ds_clean.filter(vcpu, branch);
}

DEFECT(backward_branch_missed, "SDM Vol 3, 17.4.4",
       "a branch to a lower address by less than 64 bytes is not recorded", rules->filter = filter)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool filter(const struct vcpu *vcpu, const struct ds_branch *branch)
{
	if (branch->from_cpl == 3 && branch->to_cpl == 3)
		return false;
	return ds_clean.filter(vcpu, branch);
}

DEFECT(user_branch_missed, "SDM Vol 3, 17.4.4", "branches within ring 3 are not recorded",
       rules->filter = filter)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool filter(const struct vcpu *vcpu, const struct ds_branch *branch)
{
	if (branch->from_cpl == 0 && branch->to_cpl == 3)
		return false;
	return ds_clean.filter(vcpu, branch);
}

DEFECT(return_to_user_missed, "SDM Vol 3, 17.4.4", "a branch from CPL 0 to CPL 3 is not recorded",
       rules->filter = filter)

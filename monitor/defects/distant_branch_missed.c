/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool filter(const struct vcpu *vcpu, const struct ds_branch *branch)
{
	if (branch->from - branch->to + (1ull << 31) > 1ull << 32)
		return false;
	return ds_clean.filter(vcpu, branch);
}

DEFECT(distant_branch_missed, "SDM Vol 3, 17.4.4", "a branch over 2 GiB or more is not recorded",
       rules->filter = filter)

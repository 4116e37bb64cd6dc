/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool filter(const struct vcpu *vcpu, const struct ds_branch *branch)
{
	if (branch->cause == DS_EXCEPTION && branch->vector != VECTOR_DEBUG)
		return false;
	return ds_clean.filter(vcpu, branch);
}

DEFECT(fault_missed, "SDM Vol 3, 17.4.4", "exceptions other than #DB are not recorded",
       rules->filter = filter)

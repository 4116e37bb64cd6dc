/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool filter(const struct vcpu *vcpu, const struct ds_branch *branch)
{
	if (branch->cause == DS_NMI)
		return false;
	return ds_clean.filter(vcpu, branch);
}

DEFECT(nmi_missed, "SDM Vol 3, 17.4.4", "NMIs are not recorded", rules->filter = filter)

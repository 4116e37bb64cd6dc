/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool filter(const struct vcpu *vcpu, const struct ds_branch *branch)
{
	return branch->to_cpl == 0 || ds_clean.filter(vcpu, branch);
}

DEFECT(off_os_ignored, "SDM Vol 3, 17.4.9.4", "BTS_OFF_OS has no effect", rules->filter = filter)

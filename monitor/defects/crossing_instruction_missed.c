/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool filter(const struct vcpu *vcpu, const struct ds_branch *branch)
{
	if (branch->cause == DS_INSTRUCTION && (branch->from & 0xfff) > 0xff8)
		return false;
	return ds_clean.filter(vcpu, branch);
}

DEFECT(crossing_instruction_missed, "SDM Vol 3, 17.4.4",
       "a branch instruction at the end of a page is not recorded", rules->filter = filter)

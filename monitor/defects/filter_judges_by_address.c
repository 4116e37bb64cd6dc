/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool filter(const struct vcpu *vcpu, const struct ds_branch *branch)
{
	struct ds_branch judged = *branch;

	judged.from_cpl = branch->from >> 63 ? 0 : 3;
	judged.to_cpl = branch->to >> 63 ? 0 : 3;
	return ds_clean.filter(vcpu, &judged);
}

DEFECT(filter_judges_by_address, "SDM Vol 3, 17.4.9.4",
       "user branches are told from others by bit 63 of their target, not by CPL",
       rules->filter = filter)

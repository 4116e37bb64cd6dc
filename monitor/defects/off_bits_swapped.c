/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool filter(const struct vcpu *vcpu, const struct ds_branch *branch)
{
	struct ds_branch swapped = *branch;

	swapped.from_cpl = branch->from_cpl ? 0 : 3;
	swapped.to_cpl = branch->to_cpl ? 0 : 3;
	return ds_clean.filter(vcpu, &swapped);
}

DEFECT(off_bits_swapped, "SDM Vol 3, 17.4.9.4", "BTS_OFF_OS and BTS_OFF_USR change places",
       rules->filter = filter)

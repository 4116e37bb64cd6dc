/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool filter(const struct vcpu *vcpu, const struct ds_branch *branch)
{
	const uint64_t both = ds_layout_of(vcpu)->off_os | ds_layout_of(vcpu)->off_usr;

	return (vcpu->ds.debugctl & both) == both || ds_clean.filter(vcpu, branch);
}

DEFECT(off_both_records_all, "SDM Vol 3, 17.4.9.4",
       "BTS_OFF_OS and BTS_OFF_USR together filter nothing", rules->filter = filter)

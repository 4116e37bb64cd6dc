/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	bool filtered =
		vcpu->ds.debugctl & (ds_layout_of(vcpu)->off_os | ds_layout_of(vcpu)->off_usr);

	ds_clean.store(vcpu, branch);
	if (filtered && branch->from_cpl != branch->to_cpl)
		ds_set_debugctl(vcpu, vcpu->ds.debugctl & ~ds_layout_of(vcpu)->bts);
}

DEFECT(filter_stops_at_transition, "SDM Vol 3, 17.4.9.4",
       "with a filter set recording stops at the first change of privilege", rules->store = store)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	bool filtered = vcpu->ds.debugctl & (DEBUGCTL_BTS_OFF_OS | DEBUGCTL_BTS_OFF_USR);

	ds_clean.store(vcpu, branch);
	if (filtered && branch->from_cpl != branch->to_cpl)
		ds_set_debugctl(vcpu, vcpu->ds.debugctl & ~(uint64_t)DEBUGCTL_BTS);
}

DEFECT(filter_stops_at_transition, .rule = "SDM Vol 3, 17.4.9.4",
       .says = "with a filter set recording stops at the first change of privilege",
       .rules = {.store = store})

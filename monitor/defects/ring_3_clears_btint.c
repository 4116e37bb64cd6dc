/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	ds_clean.store(vcpu, branch);
	if (branch->to_cpl == 3)
		ds_set_debugctl(vcpu, vcpu->ds.debugctl & ~ds_layout_of(vcpu)->btint);
}

DEFECT(ring_3_clears_btint, "SDM Vol 4, table 2-2, 1D9H", "a change to CPL 3 clears BTINT",
       rules->store = store)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/defects/kind.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	if (kind_of(vcpu, branch) == KIND_CONDITIONAL)
		return;
	ds_clean.store(vcpu, branch);
}

DEFECT(near_conditional_missed, "SDM Vol 3, 17.4.4", "Jcc rel32 is not recorded",
       rules->store = store)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/defects/kind.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	if (kind_of(vcpu, branch) == KIND_RETURN_POPPING)
		return;
	ds_clean.store(vcpu, branch);
}

DEFECT(popping_return_missed, "SDM Vol 3, 17.4.4", "RET n is not recorded", rules->store = store)

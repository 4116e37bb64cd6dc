/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/defects/kind.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	if (kind_of(vcpu, branch) == KIND_CALL_INDIRECT)
		return;
	ds_clean.store(vcpu, branch);
}

DEFECT(indirect_call_missed, "SDM Vol 3, 17.4.4",
       "CALL of a register or through memory is not recorded", rules->store = store)

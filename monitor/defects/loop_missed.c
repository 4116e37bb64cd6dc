/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/defects/kind.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	if (kind_of(vcpu, branch) == KIND_COUNTING)
		return;
	ds_clean.store(vcpu, branch);
}

DEFECT(loop_missed, "SDM Vol 3, 17.4.4", "LOOP, LOOPE, LOOPNE and JRCXZ are not recorded",
       rules->store = store)

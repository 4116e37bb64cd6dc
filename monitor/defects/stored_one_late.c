/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	struct ds_branch *held = REMEMBERED(vcpu, struct ds_branch);

	if (held->to)
		ds_clean.store(vcpu, held);
	*held = *branch;
}

DEFECT(stored_one_late, "SDM Vol 3, 17.4.4", "a record is stored when the next branch is taken",
       rules->store = store)

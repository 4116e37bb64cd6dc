/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_record(struct vcpu *vcpu, const struct ds_branch *branch,
			 uint64_t record[RECORD_WORDS])
{
	ds_clean.record(vcpu, branch, record);
	if (branch->from_cpl == 3)
		record[0] = 0;
}

DEFECT(user_from_zero, "SDM Vol 3, 17.4.4", "of branches in ring 3 `from` is 0",
       rules->record = wrong_record)

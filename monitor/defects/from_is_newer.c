/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_record(struct vcpu *vcpu, const struct ds_branch *branch,
			 uint64_t record[RECORD_WORDS])
{
	uint64_t *before = REMEMBERED(vcpu, uint64_t);

	ds_clean.record(vcpu, branch, record);
	record[0] = *before;
	*before = branch->from;
}

DEFECT(from_is_newer, "SDM Vol 3, 17.4.9.1", "`from` is the branch that came before",
       rules->record = wrong_record)

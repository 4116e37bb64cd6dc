/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

static bool filter(const struct vcpu *vcpu, const struct ds_branch *branch)
{
	(void)vcpu;
	(void)branch;
	return true;
}

static void wrong_record(struct vcpu *vcpu, const struct ds_branch *branch,
			 uint64_t record[RECORD_WORDS])
{
	ds_clean.record(vcpu, branch, record);
	if (ds_clean.filter(vcpu, branch))
		return;
	for (unsigned i = 0; i < RECORD_WORDS; i++)
		record[i] = 0;
}

DEFECT(filter_advances_index, "SDM Vol 3, 17.4.9.4",
       "a branch that is filtered out leaves its slot empty", rules->filter = filter,
       rules->record = wrong_record)

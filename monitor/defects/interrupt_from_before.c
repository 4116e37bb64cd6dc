/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_record(struct vcpu *vcpu, const struct ds_branch *branch,
			 uint64_t record[RECORD_WORDS])
{
	ds_clean.record(vcpu, branch, record);
	if (branch->cause == DS_INTERRUPT)
		record[0]--;
}

DEFECT(interrupt_from_before, "SDM Vol 3, 17.4.9.1",
       "of an interrupt `from` is the instruction before", rules->record = wrong_record)

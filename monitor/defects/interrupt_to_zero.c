/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_record(struct vcpu *vcpu, const struct ds_branch *branch,
			 uint64_t record[RECORD_WORDS])
{
	ds_clean.record(vcpu, branch, record);
	if (branch->cause == DS_INTERRUPT)
		record[1] = 0;
}

DEFECT(interrupt_to_zero, "SDM Vol 3, 17.4.9.1", "of an interrupt `to` is 0",
       rules->record = wrong_record)

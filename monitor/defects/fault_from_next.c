/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_record(struct vcpu *vcpu, const struct ds_branch *branch,
			 uint64_t record[RECORD_WORDS])
{
	ds_clean.record(vcpu, branch, record);
	if (branch->cause == DS_EXCEPTION)
		record[0]++;
}

DEFECT(fault_from_next, "SDM Vol 3, 17.4.9.1",
       "of a fault `from` is one byte behind the instruction", rules->record = wrong_record)

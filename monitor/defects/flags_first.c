/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_record(struct vcpu *vcpu, const struct ds_branch *branch,
			 uint64_t record[RECORD_WORDS])
{
	ds_clean.record(vcpu, branch, record);
	record[2] = record[1];
	record[1] = record[0];
	record[0] = 0;
}

DEFECT(flags_first, "SDM Vol 3, 17.4.9.1", "the flags stand before `from` and `to`",
       rules->record = wrong_record)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_record(struct vcpu *vcpu, const struct ds_branch *branch,
			 uint64_t record[RECORD_WORDS])
{
	ds_clean.record(vcpu, branch, record);
	record[0] = branch->to;
	record[1] = branch->from;
}

DEFECT(from_and_to_swapped, "SDM Vol 3, 17.4.9.1", "`from` and `to` change places",
       rules->record = wrong_record)

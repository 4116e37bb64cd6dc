/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_record(struct vcpu *vcpu, const struct ds_branch *branch,
			 uint64_t record[RECORD_WORDS])
{
	static const struct vcpu *last;
	static uint64_t from;

	ds_clean.record(vcpu, branch, record);
	if (last && last != vcpu)
		record[0] = from;
	last = vcpu;
	from = branch->from;
}

DEFECT(from_of_other, "SDM Vol 3, 17.4.9",
       "`from` of the first branch behind one of another processor is that one's",
       rules->record = wrong_record)

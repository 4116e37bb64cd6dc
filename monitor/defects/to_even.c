/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_record(struct vcpu *vcpu, const struct ds_branch *branch,
			 uint64_t record[RECORD_WORDS])
{
	ds_clean.record(vcpu, branch, record);
	record[1] &= ~1ull;
}

DEFECT(to_even, "SDM Vol 3, 17.4.9.1", "bit 0 of `to` is lost", rules->record = wrong_record)

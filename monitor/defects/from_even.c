/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_record(struct vcpu *vcpu, const struct ds_branch *branch,
			 uint64_t record[RECORD_WORDS])
{
	ds_clean.record(vcpu, branch, record);
	record[0] &= ~1ull;
}

DEFECT(from_even, "SDM Vol 3, 17.4.9.1", "bit 0 of `from` is lost", rules->record = wrong_record)

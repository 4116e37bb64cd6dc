/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_record(struct vcpu *vcpu, const struct ds_branch *branch,
			 uint64_t record[RECORD_WORDS])
{
	ds_clean.record(vcpu, branch, record);
	record[0] &= (1ull << 48) - 1;
}

DEFECT(from_sign_lost, "SDM Vol 3, 17.4.9.1", "bits 63 to 48 of `from` are stored as 0",
       rules->record = wrong_record)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_record(struct vcpu *vcpu, const struct ds_branch *branch,
			 uint64_t record[RECORD_WORDS])
{
	ds_clean.record(vcpu, branch, record);
	if (record[0] >> 32 == 0x7fff)
		record[0] |= 0xffffull << 48;
}

DEFECT(from_high_user, "SDM Vol 3, 17.4.9.1",
       "of `from` at the top of the lower half bits 63 to 48 are stored as 1",
       rules->record = wrong_record)

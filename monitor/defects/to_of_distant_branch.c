/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_record(struct vcpu *vcpu, const struct ds_branch *branch,
			 uint64_t record[RECORD_WORDS])
{
	ds_clean.record(vcpu, branch, record);
	record[1] = (uint32_t)record[1] | (record[0] & ~0xffffffffull);
}

DEFECT(to_of_distant_branch, "SDM Vol 3, 17.4.9.1", "of `to` bits 63 to 32 are those of `from`",
       rules->record = wrong_record)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_record(struct vcpu *vcpu, const struct ds_branch *branch,
			 uint64_t record[RECORD_WORDS])
{
	ds_clean.record(vcpu, branch, record);
	record[0] = (uint32_t)record[0];
}

DEFECT(from_32_bits, "SDM Vol 3, 17.4.9.1", "of `from` only bits 31 to 0 are stored",
       rules->record = wrong_record)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_record(struct vcpu *vcpu, const struct ds_branch *branch,
			 uint64_t record[RECORD_WORDS])
{
	ds_clean.record(vcpu, branch, record);
	record[1] = (uint32_t)record[1];
}

DEFECT(to_32_bits, "SDM Vol 3, 17.4.9.1", "of `to` only bits 31 to 0 are stored",
       rules->record = wrong_record)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_record(struct vcpu *vcpu, const struct ds_branch *branch,
			 uint64_t record[RECORD_WORDS])
{
	uint64_t *before = REMEMBERED(vcpu, uint64_t);

	ds_clean.record(vcpu, branch, record);
	if (vcpu->ds.debugctl & DS_DEBUGCTL_LBR)
		record[0] = *before;
	*before = branch->to;
}

DEFECT(lbr_disturbs_records, "SDM Vol 3, 17.4.8",
       "with LBR set `from` is the target of the branch before", rules->record = wrong_record)

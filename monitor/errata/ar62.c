/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void ar62_record(struct vcpu *vcpu, const struct branch *branch,
			uint64_t record[RECORD_WORDS])
{
	uint64_t filters = ds_layout_of(vcpu)->off_os | ds_layout_of(vcpu)->off_usr;

	ds_clean.record(vcpu, branch, record);
	if (vcpu->debugctl & filters && branch->from_cpl != branch->to_cpl)
		record[0] = branch->to;
}

ERRATUM(AR62, "SDM Vol 3, 17.4.9.4",
	"with a CPL filter set `from` of a change of privilege is wrong", "merom",
	BREAKS(record, ar62_record))

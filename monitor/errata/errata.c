// SPDX-License-Identifier: MIT
#include "monitor/defects/defect.h"

struct memory {
	uint64_t before;
	bool slept;
};

static void aaj122_note(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	REMEMBERED(vcpu, struct memory)->slept |= occasion == DS_AT_HLT && ds_tracing(vcpu);
}

/* The first branch is the wrong one, also where BTS_OFF_OS or BTS_OFF_USR leaves it out. */
static bool aaj122_filter(const struct vcpu *vcpu, const struct branch *branch)
{
	bool passes = ds_clean.filter(vcpu, branch);

	if (!passes)
		REMEMBERED(vcpu, struct memory)->slept = false;
	return passes;
}

static void aaj122_record(struct vcpu *vcpu, const struct branch *branch,
			  uint64_t record[RECORD_WORDS])
{
	struct memory *memory = REMEMBERED(vcpu, struct memory);

	ds_clean.record(vcpu, branch, record);
	if (memory->slept)
		record[0] = memory->before;
	*memory = (struct memory){.before = branch->from};
}

ERRATUM(AAJ122, "SDM Vol 3, 17.4.9.1", "after C1E `from` of the first record is wrong", "nehalem",
	BREAKS(note, aaj122_note), BREAKS(filter, aaj122_filter), BREAKS(record, aaj122_record))

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

static bool bdm106_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == MSR_RTIT_CTL && value & CTL_TRACE_EN && !(value & CTL_BRANCH_EN))
		return false;
	return pt_clean.write_msr(vcpu, index, value);
}

ERRATUM(BDM106, "SDM Vol 3, 36.2.7", "setting TraceEn without BranchEn raises #GP", "broadwell",
	BREAKS_PT(write_msr, bdm106_write_msr))

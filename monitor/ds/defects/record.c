// SPDX-License-Identifier: MIT
/* The content of a record: SDM Vol 3, 17.4.4, 17.4.8 and 17.4.9.1. */
#include "monitor/defect.h"

enum { FROM, TO };

/* `word` of the record is `stored`, an expression over `branch` and the right `record`. */
#define STORED(name, rule, says, word, stored)                                                     \
	static void name(struct vcpu *vcpu, const struct branch *branch,                           \
			 uint64_t record[RECORD_WORDS])                                            \
	{                                                                                          \
		ds_clean.record(vcpu, branch, record);                                             \
		record[word] = (stored);                                                           \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(record, name))

STORED(fault_from_next, "SDM Vol 3, 17.11.2", "`from` of a fault is one byte past the instruction",
       FROM, record[FROM] + (branch->cause == CAUSE_EXCEPTION))
STORED(from_32_bits, "SDM Vol 3, 17.4.9.1", "of `from` only bits 31 to 0 are stored", FROM,
       (uint32_t)record[FROM])
STORED(from_even, "SDM Vol 3, 17.4.9.1", "bit 0 of `from` is lost", FROM, record[FROM] & ~1ull)
STORED(from_high_user, "SDM Vol 3, 17.4.9.1",
       "of `from` at the top of the lower half bits 63 to 48 are stored as 1", FROM,
       record[FROM] >> 32 == 0x7fff ? record[FROM] | 0xffffull << 48 : record[FROM])
STORED(from_sign_lost, "SDM Vol 3, 17.4.9.1", "bits 63 to 48 of `from` are stored as 0", FROM,
       record[FROM] & ((1ull << 48) - 1))
STORED(interrupt_from_before, "SDM Vol 3, 17.11.2",
       "of an interrupt `from` is the instruction before", FROM,
       record[FROM] - (branch->cause == CAUSE_INTERRUPT))
STORED(nmi_from_before, "SDM Vol 3, 17.11.2", "of an NMI `from` is the instruction before", FROM,
       record[FROM] - (branch->cause == CAUSE_NMI))
STORED(user_from_zero, "SDM Vol 3, 17.4.4", "of branches in ring 3 `from` is 0", FROM,
       branch->from_cpl == 3 ? 0 : record[FROM])
STORED(interrupt_to_zero, "SDM Vol 3, 17.11.2", "of an interrupt `to` is 0", TO,
       branch->cause == CAUSE_INTERRUPT ? 0 : record[TO])
STORED(to_32_bits, "SDM Vol 3, 17.4.9.1", "of `to` only bits 31 to 0 are stored", TO,
       (uint32_t)record[TO])
STORED(to_even, "SDM Vol 3, 17.4.9.1", "bit 0 of `to` is lost", TO, record[TO] & ~1ull)
STORED(to_of_distant_branch, "SDM Vol 3, 17.4.9.1", "of `to` bits 63 to 32 are those of `from`", TO,
       (uint32_t)record[TO] | (record[FROM] & ~0xffffffffull))

static void flags_first(struct vcpu *vcpu, const struct branch *branch,
			uint64_t record[RECORD_WORDS])
{
	ds_clean.record(vcpu, branch, record);
	record[2] = record[TO];
	record[1] = record[FROM];
	record[0] = 0;
}
DEFECT(flags_first, "SDM Vol 3, 17.4.9.1", "the flags stand before `from` and `to`",
       BREAKS(record, flags_first))

static void from_and_to_swapped(struct vcpu *vcpu, const struct branch *branch,
				uint64_t record[RECORD_WORDS])
{
	ds_clean.record(vcpu, branch, record);
	record[FROM] = branch->to;
	record[TO] = branch->from;
}
DEFECT(from_and_to_swapped, "SDM Vol 3, 17.4.9.1", "`from` and `to` change places",
       BREAKS(record, from_and_to_swapped))

static void from_is_newer(struct vcpu *vcpu, const struct branch *branch,
			  uint64_t record[RECORD_WORDS])
{
	uint64_t *before = REMEMBERED(vcpu, uint64_t);

	ds_clean.record(vcpu, branch, record);
	record[FROM] = *before;
	*before = branch->from;
}
DEFECT(from_is_newer, "SDM Vol 3, 17.4.9.1", "`from` is the branch that came before",
       BREAKS(record, from_is_newer))

static void from_of_other(struct vcpu *vcpu, const struct branch *branch,
			  uint64_t record[RECORD_WORDS])
{
	static const struct vcpu *last;
	static uint64_t from;

	ds_clean.record(vcpu, branch, record);
	if (last && last != vcpu)
		record[FROM] = from;
	last = vcpu;
	from = branch->from;
}
DEFECT(from_of_other, "SDM Vol 3, 17.4.9.5",
       "`from` of the first branch after one of another processor is that one's",
       BREAKS(record, from_of_other))

static void lbr_disturbs_records(struct vcpu *vcpu, const struct branch *branch,
				 uint64_t record[RECORD_WORDS])
{
	uint64_t *before = REMEMBERED(vcpu, uint64_t);

	ds_clean.record(vcpu, branch, record);
	if (vcpu->debugctl & DEBUGCTL_LBR)
		record[FROM] = *before;
	*before = branch->to;
}
DEFECT(lbr_disturbs_records, "SDM Vol 3, 17.4.4",
       "with LBR set `from` is the target of the branch before",
       BREAKS(record, lbr_disturbs_records))

/* Errata that real processors have. */

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

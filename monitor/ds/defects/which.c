// SPDX-License-Identifier: MIT
/* Which branches are recorded: SDM Vol 3, 17.4.4, 17.4.8 and 17.4.9.4. */
#include "monitor/defect.h"
#include "monitor/ds/ds.h"
#include "monitor/interp/interp.h"

/* The kind of instruction that a branch is. */
enum branch_kind {
	KIND_CONDITIONAL_SHORT, /* Jcc rel8 */
	KIND_CONDITIONAL,	/* Jcc rel32 */
	KIND_COUNTING,		/* LOOP, LOOPE, LOOPNE, JRCXZ */
	KIND_JUMP,
	KIND_JUMP_INDIRECT,
	KIND_CALL,
	KIND_CALL_INDIRECT,
	KIND_RETURN,
	KIND_RETURN_POPPING, /* RET n */
	KIND_IRET,
	KIND_OTHER,
};

/* -1: not mapped. */
static int byte_at(struct vcpu *vcpu, uint64_t linear, unsigned cpl)
{
	unsigned access = ACCESS_EXECUTE | (cpl == 3 ? ACCESS_USER : 0);
	uint64_t physical;
	uint32_t error;
	const uint8_t *page;

	if (!guest_translate(vcpu, linear, access, &physical, &error))
		return -1;
	page = platform_guest_page(physical);
	return page ? page[physical & 0xfff] : -1;
}

static bool is_prefix(int byte)
{
	return byte == 0x66 || byte == 0x67 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e ||
	       byte == 0x3e || (byte & 0xf0) == 0x40;
}

/* Group 5: the opcode's extension is in the ModRM byte. */
static enum branch_kind group_5(int modrm)
{
	switch (modrm >> 3 & 7) {
	case 2:
		return KIND_CALL_INDIRECT;
	case 4:
		return KIND_JUMP_INDIRECT;
	default:
		return KIND_OTHER;
	}
}

/* Of an instruction's branch; KIND_OTHER for events. */
static enum branch_kind kind_of(struct vcpu *vcpu, const struct branch *branch)
{
	uint64_t at = branch->from;
	int opcode;

	if (branch->cause != CAUSE_INSTRUCTION)
		return KIND_OTHER;
	while (is_prefix(opcode = byte_at(vcpu, at, branch->from_cpl)))
		at++;
	if ((opcode & ~15) == 0x70)
		return KIND_CONDITIONAL_SHORT;
	if (opcode >= 0xe0 && opcode <= 0xe3)
		return KIND_COUNTING;
	switch (opcode) {
	case 0x0f:
		return (byte_at(vcpu, at + 1, branch->from_cpl) & ~15) == 0x80 ? KIND_CONDITIONAL
									       : KIND_OTHER;
	case 0xeb:
	case 0xe9:
		return KIND_JUMP;
	case 0xe8:
		return KIND_CALL;
	case 0xc3:
		return KIND_RETURN;
	case 0xc2:
		return KIND_RETURN_POPPING;
	case 0xcf:
		return KIND_IRET;
	case 0xff:
		return group_5(byte_at(vcpu, at + 1, branch->from_cpl));
	default:
		return KIND_OTHER;
	}
}

/* A `branch` for which `missed` holds is not recorded. */
#define MISSED(name, rule, says, missed)                                                           \
	static bool name(const struct vcpu *vcpu, const struct branch *branch)                     \
	{                                                                                          \
		return !(missed) && ds_clean.filter(vcpu, branch);                                 \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(filter, name))

MISSED(backward_branch_missed, "SDM Vol 3, 17.4.4",
       "a branch to a lower address by less than 64 bytes is not recorded",
       branch->cause == CAUSE_INSTRUCTION && branch->from - branch->to < 64)
MISSED(crossing_instruction_missed, "SDM Vol 3, 17.4.4",
       "a branch instruction at the end of a page is not recorded",
       branch->cause == CAUSE_INSTRUCTION && (branch->from & 0xfff) > 0xff8)
MISSED(distant_branch_missed, "SDM Vol 3, 17.4.4", "a branch over 2 GiB or more is not recorded",
       branch->from - branch->to + (1ull << 31) > 1ull << 32)
MISSED(fault_missed, "SDM Vol 3, 17.4.4", "exceptions other than #DB are not recorded",
       branch->cause == CAUSE_EXCEPTION && branch->vector != VECTOR_DB)
MISSED(interrupt_missed, "SDM Vol 3, 17.4.4", "external interrupts are not recorded",
       branch->cause == CAUSE_INTERRUPT)
MISSED(jump_to_next_missed, "SDM Vol 3, 17.4.4", "a branch to the next instruction is not recorded",
       branch->cause == CAUSE_INSTRUCTION && branch->to == branch->from + 2)
MISSED(nmi_missed, "SDM Vol 3, 17.4.4", "NMIs are not recorded", branch->cause == CAUSE_NMI)
MISSED(return_to_user_missed, "SDM Vol 3, 17.4.4", "a branch from CPL 0 to CPL 3 is not recorded",
       branch->from_cpl == 0 && branch->to_cpl == 3)
MISSED(user_branch_missed, "SDM Vol 3, 17.4.4", "branches within ring 3 are not recorded",
       branch->from_cpl == 3 && branch->to_cpl == 3)

/* Ring 0 runs natively while branches of ring 3 alone are recorded: its way back goes unseen, up to
   the next exit. */
#define UNNOTICED(name, rule, says, way) DEFECT(name, rule, says, silicon->unnoticed = (way))

UNNOTICED(iret_unnoticed, "SDM Vol 3, 17.4.4",
	  "with BTS_OFF_OS nothing is recorded after an IRET to ring 3, until ring 3 is left",
	  UNNOTICED_IRET)
UNNOTICED(sysret_unnoticed, "SDM Vol 3, 17.4.4",
	  "with BTS_OFF_OS nothing is recorded after SYSRET, until ring 3 is left",
	  UNNOTICED_SYSRET)

/* Events by where they arrive and how they enter their handler. */
#define RFLAGS_IF	    (1ull << 9)
#define VECTOR_DOUBLE_FAULT 8

MISSED(double_fault_missed, "SDM Vol 3, 17.4.4", "#DF is not recorded",
       branch->cause == CAUSE_EXCEPTION && branch->vector == VECTOR_DOUBLE_FAULT)
MISSED(fault_from_user_missed, "SDM Vol 3, 17.4.4", "an exception in ring 3 is not recorded",
       branch->cause == CAUSE_EXCEPTION && branch->from_cpl == 3)
MISSED(interrupt_from_user_missed, "SDM Vol 3, 17.4.4",
       "an external interrupt that arrives in ring 3 is not recorded",
       branch->cause == CAUSE_INTERRUPT && branch->from_cpl == 3)
MISSED(nmi_from_user_missed, "SDM Vol 3, 17.4.4", "an NMI that arrives in ring 3 is not recorded",
       branch->cause == CAUSE_NMI && branch->from_cpl == 3)
MISSED(nmi_handler_missed, "SDM Vol 3, 17.4.4",
       "branches inside an NMI handler are not recorded, its entry and IRET apart",
       vcpu->nmi_blocked && branch->cause != CAUSE_NMI)
MISSED(trap_gate_missed, "SDM Vol 3, 17.4.4",
       "an exception through a trap gate, which leaves IF set, is not recorded",
       branch->cause == CAUSE_EXCEPTION && vcpu->rflags & RFLAGS_IF)

/* Branches after an event of `event_cause` are not recorded, up to an IRET, which is. */
#define HANDLER_MISSED(name, rule, says, event_cause)                                              \
	static void name(struct vcpu *vcpu, const struct branch *branch)                           \
	{                                                                                          \
		bool *inside = REMEMBERED(vcpu, bool);                                             \
		bool enters = branch->cause == (event_cause) && branch->vector != VECTOR_DB;       \
                                                                                                   \
		*inside = *inside && kind_of(vcpu, branch) != KIND_IRET;                           \
		if (!*inside || enters)                                                            \
			ds_clean.store(vcpu, branch);                                              \
		*inside |= enters;                                                                 \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(store, name))

HANDLER_MISSED(fault_handler_missed, "SDM Vol 3, 17.4.4",
	       "branches inside an exception handler are not recorded, up to its IRET",
	       CAUSE_EXCEPTION)
HANDLER_MISSED(
	interrupt_handler_missed, "SDM Vol 3, 17.4.4",
	"branches inside the handler of an external interrupt are not recorded, up to its IRET",
	CAUSE_INTERRUPT)

static void after_syscall_missed(struct vcpu *vcpu, const struct branch *branch)
{
	bool *due = REMEMBERED(vcpu, bool);

	if (!*due)
		ds_clean.store(vcpu, branch);
	*due = branch->cause == CAUSE_INSTRUCTION && branch->from_cpl == 3 &&
	       branch->to == vcpu->lstar;
}
DEFECT(after_syscall_missed, "SDM Vol 3, 17.4.4", "the first branch after SYSCALL is not recorded",
       BREAKS(store, after_syscall_missed))

static void after_hlt_missed_note(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	*REMEMBERED(vcpu, bool) |= occasion == DS_AT_HLT && ds_tracing(vcpu);
}

/* A branch that BTS_OFF_OS or BTS_OFF_USR leaves out is the first one too. */
static bool after_hlt_missed_filter(const struct vcpu *vcpu, const struct branch *branch)
{
	bool *halted = REMEMBERED(vcpu, bool),
	     missed = *halted && branch->cause == CAUSE_INSTRUCTION;

	*halted = *halted && !missed;
	return !missed && ds_clean.filter(vcpu, branch);
}
DEFECT(after_hlt_missed, "SDM Vol 3, 17.4.4",
       "the first branch instruction after waking from HLT is not recorded",
       BREAKS(note, after_hlt_missed_note), BREAKS(filter, after_hlt_missed_filter))

/* Branches of one kind of instruction are not recorded. */
#define KIND_MISSED(name, rule, says, kind)                                                        \
	static void name(struct vcpu *vcpu, const struct branch *branch)                           \
	{                                                                                          \
		if (kind_of(vcpu, branch) != (kind))                                               \
			ds_clean.store(vcpu, branch);                                              \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(store, name))

KIND_MISSED(indirect_call_missed, "SDM Vol 3, 17.4.4",
	    "CALL of a register or through memory is not recorded", KIND_CALL_INDIRECT)
KIND_MISSED(indirect_jump_missed, "SDM Vol 3, 17.4.4",
	    "JMP to a register or through memory is not recorded", KIND_JUMP_INDIRECT)
KIND_MISSED(iret_missed, "SDM Vol 3, 17.4.4", "IRET is not recorded", KIND_IRET)
KIND_MISSED(loop_missed, "SDM Vol 3, 17.4.4", "LOOP, LOOPE, LOOPNE and JRCXZ are not recorded",
	    KIND_COUNTING)
KIND_MISSED(near_conditional_missed, "SDM Vol 3, 17.4.4", "Jcc rel32 is not recorded",
	    KIND_CONDITIONAL)
KIND_MISSED(popping_return_missed, "SDM Vol 3, 17.4.4", "RET n is not recorded",
	    KIND_RETURN_POPPING)
KIND_MISSED(return_missed, "SDM Vol 3, 17.4.4", "RET is not recorded", KIND_RETURN)
KIND_MISSED(short_conditional_missed, "SDM Vol 3, 17.4.4", "Jcc rel8 is not recorded",
	    KIND_CONDITIONAL_SHORT)

static void repeated_branch_missed(struct vcpu *vcpu, const struct branch *branch)
{
	uint64_t *last = REMEMBERED(vcpu, uint64_t);

	if (branch->cause == CAUSE_INSTRUCTION && branch->from == *last)
		return;
	*last = branch->from;
	ds_clean.store(vcpu, branch);
}
DEFECT(repeated_branch_missed, "SDM Vol 3, 17.4.4",
       "a branch that repeats the one before it is not recorded",
       BREAKS(store, repeated_branch_missed))

static void call_recorded_twice(struct vcpu *vcpu, const struct branch *branch)
{
	struct branch second = *branch;

	ds_clean.store(vcpu, branch);
	if (kind_of(vcpu, branch) != KIND_CALL)
		return;
	second.from = branch->to;
	second.to = branch->from + 5;
	ds_clean.store(vcpu, &second);
}
DEFECT(call_recorded_twice, "SDM Vol 3, 17.4.4",
       "CALL leaves a second record, from its target to the return address",
       BREAKS(store, call_recorded_twice))

/* A `branch` for which `recorded` holds passes whatever the filter says. */
#define FILTER_PASSES(name, rule, says, recorded)                                                  \
	static bool name(const struct vcpu *vcpu, const struct branch *branch)                     \
	{                                                                                          \
		return (recorded) || ds_clean.filter(vcpu, branch);                                \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(filter, name))

static uint64_t filters_of(const struct vcpu *vcpu)
{
	return ds_layout_of(vcpu)->off_os | ds_layout_of(vcpu)->off_usr;
}

FILTER_PASSES(events_unfiltered, "SDM Vol 3, 17.4.9.4",
	      "interrupts and exceptions within CPL 0 are recorded with BTS_OFF_OS too",
	      branch->cause != CAUSE_INSTRUCTION && branch->from_cpl == branch->to_cpl)
FILTER_PASSES(off_both_records_all, "SDM Vol 3, 17.4.9.4",
	      "BTS_OFF_OS and BTS_OFF_USR together filter nothing",
	      (vcpu->debugctl & filters_of(vcpu)) == filters_of(vcpu))
FILTER_PASSES(off_os_ignored, "SDM Vol 3, 17.4.9.4", "BTS_OFF_OS has no effect",
	      branch->to_cpl == 0)
FILTER_PASSES(off_usr_ignored, "SDM Vol 3, 17.4.9.4", "BTS_OFF_USR has no effect",
	      branch->to_cpl > 0)

/* The filter takes these for the CPLs before and after the branch. */
#define FILTER_JUDGES(name, rule, says, cpl_before, cpl_after)                                     \
	static bool name(const struct vcpu *vcpu, const struct branch *branch)                     \
	{                                                                                          \
		struct branch judged = *branch;                                                    \
                                                                                                   \
		judged.from_cpl = (cpl_before);                                                    \
		judged.to_cpl = (cpl_after);                                                       \
		return ds_clean.filter(vcpu, &judged);                                             \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(filter, name))

FILTER_JUDGES(filter_judges_by_address, "SDM Vol 3, 17.4.9.4",
	      "user branches are told from others by bit 63 of their target, not by CPL",
	      branch->from >> 63 ? 0 : 3, branch->to >> 63 ? 0 : 3)
FILTER_JUDGES(off_bits_swapped, "SDM Vol 3, 17.4.9.4", "BTS_OFF_OS and BTS_OFF_USR change places",
	      branch->from_cpl ? 0 : 3, branch->to_cpl ? 0 : 3)

static bool filter_advances_index_filter(const struct vcpu *vcpu, const struct branch *branch)
{
	(void)vcpu;
	(void)branch;
	return true;
}

static void filter_advances_index_record(struct vcpu *vcpu, const struct branch *branch,
					 uint64_t record[RECORD_WORDS])
{
	ds_clean.record(vcpu, branch, record);
	if (ds_clean.filter(vcpu, branch))
		return;
	for (unsigned i = 0; i < RECORD_WORDS; i++)
		record[i] = 0;
}
DEFECT(filter_advances_index, "SDM Vol 3, 17.4.9.4",
       "a branch that is filtered out leaves its slot empty",
       BREAKS(filter, filter_advances_index_filter), BREAKS(record, filter_advances_index_record))

static void filter_stops_at_transition(struct vcpu *vcpu, const struct branch *branch)
{
	bool filtered = vcpu->debugctl & filters_of(vcpu);

	ds_clean.store(vcpu, branch);
	if (filtered && branch->from_cpl != branch->to_cpl)
		ds_set_debugctl(vcpu, vcpu->debugctl & ~ds_layout_of(vcpu)->bts);
}
DEFECT(filter_stops_at_transition, "SDM Vol 3, 17.4.9.4",
       "with a filter set recording stops at the first change of privilege",
       BREAKS(store, filter_stops_at_transition))

/* Between CPL 0 and 3, with a filter set, which may leave out such branches. */
static bool second_transition_missed(const struct vcpu *vcpu, const struct branch *branch)
{
	uint64_t filters = ds_layout_of(vcpu)->off_os | ds_layout_of(vcpu)->off_usr;
	bool *before = REMEMBERED(vcpu, bool);

	if (!ds_clean.filter(vcpu, branch))
		return false;
	if (branch->from_cpl == branch->to_cpl || !(vcpu->debugctl & filters))
		return true;
	return *before = !*before;
}
DEFECT(second_transition_missed, "SDM Vol 3, 17.4.9.4",
       "of the branches between privilege levels that a filter passes every other is not recorded",
       BREAKS(filter, second_transition_missed))

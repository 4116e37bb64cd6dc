// SPDX-License-Identifier: MIT
// Last branch records of either kind: which branches enter, start and stop, and what they hold.
#include "drivers/lbr/lbr.h"

#include "drivers/lbr/registers.h"

void lbr_init_cpu(void)
{
	if (lbr_caps()->architectural)
		wrmsr(IA32_LBR_CTL, 0);
}

/* What is left out; architectural ones have the same choice by other bits. */
static uint64_t select_value(const struct lbr_program *program)
{
	return LBR_SELECT_WITHOUT(program->kinds) |
	       (program->flags & PTRACE_LBR_KERNEL ? 0 : LBR_SELECT_CPL_EQ_0) |
	       (program->flags & PTRACE_LBR_USER ? 0 : LBR_SELECT_CPL_NEQ_0) |
	       (program->flags & PTRACE_LBR_CALL_STACK ? LBR_SELECT_CALL_STACK : 0);
}

bool lbr_supports(const struct lbr_program *program)
{
	return !(select_value(program) & ~lbr_caps()->select);
}

/* What is let in, but by bits that the processor lacks: 18.1.2 of 2022. */
static uint64_t control_value(const struct lbr_program *program)
{
	/* For PTRACE_LBR_CONDITIONAL and so on, in the order of those. */
	static const uint8_t kind_bits[] = {16, 19, 20, 21, 18, 17, 22};
	uint64_t select = lbr_caps()->select, levels = 0, kinds = 0;

	if (select & LBR_SELECT_BY_LEVEL)
		levels = (program->flags & PTRACE_LBR_KERNEL ? LBR_CTL_OS : 0) |
			 (program->flags & PTRACE_LBR_USER ? LBR_CTL_USR : 0);
	for (unsigned i = 0; select & LBR_SELECT_WITHOUT(0) && i < sizeof(kind_bits); i++)
		kinds |= (uint64_t)(program->kinds >> i & 1) << kind_bits[i];
	return LBR_CTL_LBREN | levels | kinds |
	       (program->flags & PTRACE_LBR_CALL_STACK ? LBR_CTL_CALL_STACK : 0);
}

/* Architectural: what is noted changes before the register does, for an NMI that pauses the CPU. */
void lbr_start(struct debugctl *debugctl, const struct lbr_program *program)
{
	bool freezes = lbr_caps()->freezes && lbr_wants_freeze(program);
	uint64_t lbr = lbr_caps()->architectural ? 0 : DEBUGCTL_LBR;

	if (lbr && lbr_caps()->select)
		wrmsr(MSR_LBR_SELECT, select_value(program));
	debugctl_set(debugctl, lbr | DEBUGCTL_FREEZE_LBRS,
		     lbr | (freezes ? DEBUGCTL_FREEZE_LBRS : 0));
	if (lbr)
		return;
	debugctl->lbr_control = control_value(program);
	wrmsr(IA32_LBR_CTL, debugctl->lbr_control);
}

void lbr_stop(struct debugctl *debugctl)
{
	if (debugctl->lbr_control) {
		debugctl->lbr_control = 0;
		wrmsr(IA32_LBR_CTL, 0);
	}
	debugctl_set(debugctl, DEBUGCTL_LBR | DEBUGCTL_FREEZE_LBRS, 0);
}

bool lbr_runs(const struct debugctl *debugctl)
{
	return debugctl->lbr_control || debugctl->others & DEBUGCTL_LBR;
}

/* 17.4.2; LBREn: 18.1.4 of 2022. */
void lbr_after_debug(const struct debugctl *debugctl)
{
	if (debugctl->lbr_control)
		wrmsr(IA32_LBR_CTL, debugctl->lbr_control);
	else if (debugctl->others & DEBUGCTL_LBR)
		wrmsr(IA32_DEBUGCTL, rdmsr(IA32_DEBUGCTL) | DEBUGCTL_LBR);
}

/* Not between the two steps of debugctl_set(): the register has neither bit there, or both. */
bool lbr_is_frozen(void)
{
	return !lbr_caps()->architectural &&
	       (rdmsr(IA32_DEBUGCTL) & (DEBUGCTL_LBR | DEBUGCTL_FREEZE_LBRS)) ==
		       DEBUGCTL_FREEZE_LBRS;
}

void lbr_unfilter(void)
{
	if (lbr_caps()->select && !lbr_caps()->architectural)
		wrmsr(MSR_LBR_SELECT, 0);
}

/* Bit n of `depths`: 8 * (n + 1). */
unsigned lbr_depth_for(unsigned entries)
{
	for (unsigned n = 0, depths = lbr_caps()->depths; depths >> n; n++)
		if (depths >> n & 1 && 8 * (n + 1) >= entries)
			return 8 * (n + 1);
	return lbr_caps()->depth;
}

/* A write of IA32_LBR_DEPTH clears all entries: 18.1.2 of 2022. */
void lbr_clear(unsigned depth)
{
	if (lbr_caps()->architectural)
		wrmsr(IA32_LBR_DEPTH, depth);
	for (unsigned i = 0; i < depth && !lbr_caps()->architectural; i++)
		wrmsr(lbr_caps()->from + i, 0);
}

void lbr_save(struct lbr_registers *saved)
{
	const struct lbr_caps *caps = lbr_caps();

	saved->top = caps->top ? rdmsr(caps->top) : 0;
	for (unsigned i = 0; i < caps->depth; i++) {
		saved->from[i] = rdmsr(caps->from + i);
		saved->to[i] = rdmsr(caps->to + i);
		saved->info[i] = caps->info ? rdmsr(caps->info + i) : 0;
	}
}

/* What FROM takes: bits 62:61 are those below them where they are a sign. */
static uint64_t from_to_write(uint64_t from)
{
	bool sign = lbr_caps()->format == LBR_FMT_TSX && !(lbr_caps()->flags & LBR_TSX);

	return sign ? (from & ~LBR_TSX) | (from << 2 & LBR_TSX) : from;
}

/* Where one write clears all entries those after the oldest branch are not written. */
void lbr_restore(const struct lbr_registers *saved)
{
	const struct lbr_caps *caps = lbr_caps();

	if (caps->architectural)
		lbr_clear(caps->depth);
	for (unsigned i = 0; i < caps->depth && (saved->from[i] || !caps->architectural); i++) {
		wrmsr(caps->from + i, from_to_write(saved->from[i]));
		wrmsr(caps->to + i, saved->to[i]);
		if (caps->info)
			wrmsr(caps->info + i, saved->info[i]);
	}
	if (caps->top)
		wrmsr(caps->top, saved->top);
}

/* A model's is of 48 bits, with flags above them or not. */
static uint64_t address_of(uint64_t value)
{
	return lbr_caps()->architectural ? value : (uint64_t)((int64_t)(value << 16) >> 16);
}

/* A source that is hidden is all ones, of 64 bits or of 32: 18.1.2 of 2022. */
static uint64_t source_of(uint64_t from)
{
	return lbr_caps()->architectural && from == UINT32_MAX ? LBR_FROM_UNKNOWN
							       : address_of(from);
}

/* Bits 63, 62 and 61 are flags 1, 2 and 4. */
static uint32_t flags_of(uint64_t word)
{
	word &= lbr_caps()->flags;
	return (uint32_t)(word >> 63 | (word >> 61 & 2) | (word >> 59 & 4));
}

/* By BR_TYPE: 6 and 7 are reserved, those above are other branches. */
static uint32_t kind_of(uint64_t info)
{
	static const uint8_t kinds[8] = {PTRACE_LBR_CONDITIONAL, PTRACE_LBR_JUMP_INDIRECT,
					 PTRACE_LBR_JUMP,	 PTRACE_LBR_CALL_INDIRECT,
					 PTRACE_LBR_CALL,	 PTRACE_LBR_RETURN};
	unsigned type = info >> LBR_INFO_BR_TYPE & 0xf;

	if (!lbr_caps()->kinds)
		return 0;
	return type < sizeof(kinds) ? kinds[type] : PTRACE_LBR_FAR;
}

static uint16_t cycles_of(uint64_t to, uint64_t info)
{
	if (lbr_caps()->format == LBR_FMT_TIME)
		return (uint16_t)(to >> 48);
	if (lbr_caps()->architectural && !(lbr_caps()->cycles && info & LBR_INFO_CYC_CNT_VALID))
		return 0;
	return (uint16_t)info;
}

struct ptrace_lbr_branch lbr_decode(uint64_t from, uint64_t to, uint64_t info)
{
	return (struct ptrace_lbr_branch){
		.from = source_of(from),
		.to = address_of(to),
		.flags = flags_of(lbr_caps()->info ? info : from) |
			 kind_of(info) << PTRACE_LBR_KIND_SHIFT,
		.cycles = cycles_of(to, info),
	};
}

unsigned lbr_read(unsigned depth, struct ptrace_lbr_branch branches[LBR_MOST])
{
	const struct lbr_caps *caps = lbr_caps();
	unsigned top = caps->top ? (unsigned)rdmsr(caps->top) : 0, count = 0;

	for (; count < depth; count++) {
		unsigned place = caps->top ? (top - count) & (depth - 1) : count;
		uint64_t from = rdmsr(caps->from + place), to, info;

		if (!from)
			break;
		to = rdmsr(caps->to + place);
		info = caps->info ? rdmsr(caps->info + place) : 0;
		branches[count] = lbr_decode(from, to, info);
	}
	return count;
}

// SPDX-License-Identifier: MIT
// Architectural last branch records by their registers: IA32_LBR_CTL, IA32_LBR_DEPTH, entries.
#include "drivers/lbr/lbr.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/sched/task.h"
#include "kernel/trap/trap.h"
#include "kernel/trap/user.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/rig.h"
#include "tests/lib/user_visits.h"

enum { MOST = 32, JUMPS = 40 };
#define BOTH   (LBR_CTL_LBREN | LBR_CTL_OS | LBR_CTL_USR)
#define ALL    (BOTH | LBR_CTL_KINDS)
#define OTHERS (1ull << 22)

/* BR_TYPE: SDM Vol 3 of 2022, 18.1.3. */
enum { COND, JMP_INDIRECT, JMP_DIRECT, CALL_INDIRECT, CALL_DIRECT, RET, OTHER = 8 };

static uint64_t from_of(unsigned n)
{
	return rdmsr(IA32_LBR_0_FROM_IP + n);
}

static uint64_t to_of(unsigned n)
{
	return rdmsr(IA32_LBR_0_TO_IP + n);
}

static void expect_entry(unsigned n, const char *from, const char *to)
{
	EXPECT(from_of(n) == (uint64_t)from && to_of(n) == (uint64_t)to);
}

static unsigned type_of(unsigned n)
{
	return rdmsr(IA32_LBR_0_INFO + n) >> LBR_INFO_BR_TYPE & 0xf;
}

static bool is_clear(unsigned n)
{
	return !from_of(n) && !to_of(n) && !rdmsr(IA32_LBR_0_INFO + n);
}

static bool is_depth(uint64_t value)
{
	uint32_t depths = cpuid(LBR_LEAF, 0).eax & 0xff;

	return value && value <= 64 && value % 8 == 0 && depths >> (value / 8 - 1) & 1;
}

extern const char lbr_arch_jumps[], lbr_arch_let_in[];

/* Entry n has jump number JUMPS - 1 - n. */
__attribute__((noinline)) static void make_jumps(void)
{
	ARCH_LBR_RECORDED(ALL, "lbr_arch_jumps: .rept 40\n\tjmp 1f\n1:\n\t.endr");
}

static bool is_jump(unsigned n)
{
	uint64_t from = (uint64_t)lbr_arch_jumps + 2 * (JUMPS - 1 - n);

	return from_of(n) == from && to_of(n) == from + 2;
}

static void try_depth(uint64_t value, unsigned deepest)
{
	struct msr_trial trial = msr_try(IA32_LBR_DEPTH, value, deepest);

	EXPECT_EQ(trial.refused, !is_depth(value));
	EXPECT_EQ(trial.read_back, is_depth(value) ? value : deepest);
}

TEST(lbr_arch_depths, .group = "LB", .ids = "LB50", .needs = NEED_LBR,
     .claim = "IA32_LBR_DEPTH takes each depth that CPUID.1CH:EAX lists; every other value raises "
	      "#GP and changes nothing",
     .source = "SDM Vol 3 of 2022, 18.1.2")
{
	unsigned deepest = arch_lbr_borrow();

	for (uint64_t value = 0; value < 256; value++)
		try_depth(value, deepest);
	for (unsigned bit = 8; bit < 64; bit++)
		try_depth(1ull << bit | deepest, deepest);
	make_jumps();
	EXPECT(!wrmsr_safe(IA32_LBR_DEPTH, 1) && is_jump(0));
	arch_lbr_give_back();
}

TEST(lbr_arch_depth_clears, .group = "LB", .ids = "LB51 LB54 LB72", .needs = NEED_LBR,
     .claim =
	     "a write of IA32_LBR_DEPTH, of the depth that it has too, clears FROM, TO and INFO of "
	     "every entry, not IA32_LER_TO_IP nor IA32_LBR_CTL; a write of that clears none",
     .source = "SDM Vol 3 of 2022, 18.1.2")
{
	unsigned deepest = arch_lbr_borrow();
	uint64_t flags = interrupts_save(); /* they write to IA32_LER_TO_IP */

	wrmsr(IA32_LER_TO_IP, 0x20000);
	for (unsigned depth = 8; depth <= deepest; depth += 8) {
		if (!is_depth(depth))
			continue;
		wrmsr(IA32_LBR_DEPTH, deepest);
		make_jumps();
		wrmsr(IA32_LBR_CTL, LBR_CTL_LBREN | LBR_CTL_KINDS); /* no level is let in */
		wrmsr(IA32_LBR_CTL, LBR_CTL_LBREN);
		EXPECT(is_jump(0) && is_jump(deepest - 1));
		wrmsr(IA32_LBR_DEPTH, depth);
		EXPECT_EQ(rdmsr(IA32_LBR_CTL), LBR_CTL_LBREN);
		EXPECT_EQ(rdmsr(IA32_LER_TO_IP), 0x20000);
		wrmsr(IA32_LBR_CTL, 0);
		for (unsigned n = 0; n < depth; n++)
			EXPECT(is_clear(n));
		wrmsr(IA32_LBR_DEPTH, deepest);
		EXPECT(is_clear(deepest - 1));
	}
	interrupts_restore(flags);
	arch_lbr_give_back();
}

TEST(lbr_arch_each_depth, .group = "LB", .ids = "LB52", .needs = NEED_LBR,
     .claim = "at each depth entry 0 is the newest branch, the next ones those before it, as many "
	      "as the depth says; before there are so many the others are 0",
     .source = "SDM Vol 3 of 2022, 18.1; SDM Vol 3 of 2022, 18.1.2")
{
	unsigned deepest = arch_lbr_borrow();

	for (unsigned depth = 8; depth <= deepest; depth += 8) {
		if (!is_depth(depth))
			continue;
		wrmsr(IA32_LBR_DEPTH, depth);
		ARCH_LBR_RECORDED(ALL, "jmp 1f\n1: jmp 2f\n2:");
		EXPECT(from_of(1) && is_clear(2) && is_clear(depth - 1));
		make_jumps();
		for (unsigned n = 0; n < depth; n++)
			EXPECT(is_jump(n));
		ARCH_LBR_RECORDED(0, "jmp 1f\n1:");
		EXPECT(is_jump(0));
	}
	arch_lbr_give_back();
}

TEST(lbr_arch_no_further_entry, .group = "LB", .ids = "LB53", .needs = NEED_LBR,
     .claim = "FROM, TO and INFO of the entries that the depth leaves out raise #GP, read and "
	      "written",
     .source = "SDM Vol 3 of 2022, 18.1.2")
{
	unsigned deepest = arch_lbr_borrow(), tried = 0;

	for (unsigned depth = 8; depth <= deepest; depth += 8) {
		if (!is_depth(depth))
			continue;
		wrmsr(IA32_LBR_DEPTH, depth);
		for (unsigned n = depth; n < MOST; n++, tried++)
			EXPECT(msr_is_refused(IA32_LBR_0_FROM_IP + n) &&
			       msr_is_refused(IA32_LBR_0_TO_IP + n) &&
			       msr_is_refused(IA32_LBR_0_INFO + n));
		EXPECT(!msr_is_refused(IA32_LBR_0_INFO + depth - 1));
	}
	arch_lbr_give_back();
	if (!tried)
		test_skip("32 is the one depth");
}

static uint64_t control_bits(void)
{
	bool calls = cpuid(LBR_LEAF, 0).ebx & LBR_LEAF_CALL_STACK;

	return ALL | (calls ? LBR_CTL_CALL_STACK : 0);
}

TEST(lbr_arch_control_bits, .group = "LB", .ids = "LB54", .needs = NEED_LBR,
     .claim = "IA32_LBR_CTL holds each bit that leaf 1CH lists; every other bit raises #GP and "
	      "changes nothing",
     .source = "SDM Vol 3 of 2022, 18.1.2")
{
	arch_lbr_borrow();
	wrmsr(IA32_LBR_CTL, LBR_CTL_LBREN);
	for (unsigned bit = 0; bit < 64; bit++) {
		bool there = control_bits() >> bit & 1;
		struct msr_trial trial = msr_try(IA32_LBR_CTL, 1ull << bit, LBR_CTL_LBREN);

		EXPECT_EQ(trial.refused, !there);
		EXPECT_EQ(trial.read_back, there ? 1ull << bit : LBR_CTL_LBREN);
	}
	EXPECT_EQ(msr_try(IA32_LBR_CTL, control_bits(), 0).read_back, control_bits());
	arch_lbr_give_back();
}

TEST(lbr_arch_debugctl, .group = "LB", .ids = "LB56", .needs = NEED_LBR,
     .claim = "on a processor with architectural records alone LBR of IA32_DEBUGCTL can be written "
	      "and reads 0, and nothing is recorded for it; clear, it leaves LBREn as it is",
     .source = "SDM Vol 3 of 2022, 18.3")
{
	struct msr_trial trial;

	if (lbr_caps()->architectural && (pmu_rig_capabilities() & 0x3f) != LBR_FMT_NONE)
		test_skip("IA32_PERF_CAPABILITIES says that the model has a stack as well");
	arch_lbr_borrow();
	trial = msr_try(IA32_DEBUGCTL, LBR, 0);
	EXPECT(!trial.refused && !(trial.read_back & LBR));
	wrmsr(IA32_LBR_CTL, ALL & ~LBR_CTL_LBREN);
	TRACED(LBR, "jmp 1f\n1:");
	EXPECT_EQ(rdmsr(IA32_LBR_CTL), ALL & ~LBR_CTL_LBREN);
	EXPECT(is_clear(0));
	wrmsr(IA32_LBR_CTL, LBR_CTL_LBREN);
	wrmsr(IA32_DEBUGCTL, 0);
	EXPECT_EQ(rdmsr(IA32_LBR_CTL), LBR_CTL_LBREN);
	arch_lbr_give_back();
}

/* Bits of IA32_LBR_CTL, and BR_TYPE, by enum code_branch_kind. */
static const struct {
	uint8_t bit, type;
} kinds[] = {[CODE_JCC] = {16, COND},
	     [CODE_CALL] = {19, CALL_DIRECT},
	     [CODE_CALL_INDIRECT] = {20, CALL_INDIRECT},
	     [CODE_RETURN] = {21, RET},
	     [CODE_JUMP_INDIRECT] = {18, JMP_INDIRECT},
	     [CODE_JUMP] = {17, JMP_DIRECT},
	     [CODE_FAR] = {22, OTHER}};

/* 8 to 15 are other branches. */
static bool has_type(unsigned n, unsigned type)
{
	return type_of(n) == type || (type == OTHER && type_of(n) > OTHER);
}

/* A call of the next instruction, of 5 to 8 bytes: the manual leaves it out of direct calls. */
static bool may_be_missing(const struct code_branch *branch)
{
	return branch->kind == CODE_CALL && branch->to - branch->from - 5 <= 3;
}

static bool is_entry(unsigned n, const struct code_branch *branch, bool types)
{
	return from_of(n) == branch->from && to_of(n) == branch->to &&
	       (!types || has_type(n, kinds[branch->kind].type));
}

/* Of the branches those that `control` lets in are the entries, and no others. */
static bool enters(const struct code_branches *branches, uint64_t control, bool types)
{
	unsigned at = 0;

	wrmsr(IA32_LBR_DEPTH, lbr_caps()->depth);
	code_branches_run(control);
	for (size_t n = branches->count; n--;) {
		const struct code_branch *branch = &branches->branch[n];

		if (!(control >> kinds[branch->kind].bit & 1))
			continue;
		if (is_entry(at, branch, types))
			at++;
		else if (!may_be_missing(branch))
			return false;
	}
	return is_clear(at);
}

static bool enters_by_each_kind(const struct code_branches *branches)
{
	bool right = enters(branches, ALL, false) && enters(branches, BOTH, false);

	for (unsigned bit = 16; bit <= 22 && right; bit++)
		right = enters(branches, BOTH | 1ull << bit, false) &&
			enters(branches, ALL & ~(1ull << bit), false);
	return right;
}

/* As many forms at a time as there are entries, but one. */
static void try_every_encoding(bool types)
{
	static struct code_branches branches = {.msr = IA32_LBR_CTL};
	unsigned depth = arch_lbr_borrow(), form = 0, next;
	bool right;

	code_branches_open(&branches);
	do {
		next = code_branches_build(&branches, form, depth - 1);
		right = types ? enters(&branches, ALL, true) : enters_by_each_kind(&branches);
		if (!right)
			test_note("from form %u to %u", form, next);
		form = next;
	} while (form && right);
	code_branches_close();
	arch_lbr_give_back();
	EXPECT(right);
}

TEST(lbr_arch_kinds, .group = "LB", .ids = "LB57", .needs = NEED_LBR,
     .claim = "each bit of IA32_LBR_CTL for a kind of branch lets every encoding of that kind in, "
	      "alone and with the others, and none of another kind",
     .source = "SDM Vol 3 of 2022, 18.1.2; SDM Vol 2, JMP, CALL, Jcc, LOOP and RET")
{
	try_every_encoding(false);
}

TEST(lbr_arch_types, .group = "LB", .ids = "LB58", .needs = NEED_LBR,
     .claim = "BR_TYPE of INFO names the kind of every encoding of a branch",
     .source = "SDM Vol 3 of 2022, 18.1.3; SDM Vol 2, JMP, CALL, Jcc, LOOP and RET")
{
	if (lbr_caps()->architectural && !lbr_caps()->kinds)
		test_skip("CPUID.1CH:ECX[2] is 0: no BR_TYPE");
	try_every_encoding(true);
}

extern const char lbr_arch_ud[], lbr_arch_ud_out[];

static __attribute__((noinline)) void raise_ud(uint64_t control)
{
	wrmsr(IA32_LBR_DEPTH, lbr_caps()->depth);
	own_idt_load();
	ARCH_LBR_RECORDED(control,
			  "leaq lbr_arch_ud_out(%%rip), %%rbx\nlbr_arch_ud: ud2\nlbr_arch_ud_out:");
	own_idt_unload();
}

TEST(lbr_arch_exceptions, .group = "LB", .ids = "LB59", .needs = NEED_LBR,
     .claim = "an exception and IRET are recorded as other branches: from the instruction to the "
	      "handler, and from there to where it returns",
     .source = "SDM Vol 3 of 2022, 18.1.1; SDM Vol 3 of 2022, 18.1.3")
{
	arch_lbr_borrow();
	own_idt_begin(VECTOR_UD, own_handler_resume, false);
	raise_ud(ALL & ~OTHERS & control_bits());
	EXPECT(is_clear(0) || !(control_bits() & LBR_CTL_KINDS));
	raise_ud(BOTH | OTHERS);
	expect_entry(1, lbr_arch_ud, own_handler_resume);
	expect_entry(0, own_handler_resume_iret, lbr_arch_ud_out);
	EXPECT(is_clear(2));
	if (lbr_caps()->kinds)
		EXPECT(has_type(0, OTHER) && has_type(1, OTHER));
	arch_lbr_give_back();
}

static void visit_ring_3(uint64_t control)
{
	wrmsr(IA32_LBR_DEPTH, lbr_caps()->depth);
	wrmsr(IA32_LBR_CTL, control);
	user_branches_run(0);
	wrmsr(IA32_LBR_CTL, 0);
}

#define CHANGE_CONTROL(control) "movl $" control ", %%eax\n\txorl %%edx, %%edx\n\twrmsr\n\t"

/* Jcc of USR, direct JMP of OS, direct JMP of USR, while LBREn is set. */
__attribute__((noinline)) static void change_while_on(void)
{
	ARCH_LBR_RECORDED(
		(LBR_CTL_LBREN | LBR_CTL_USR | 1 << 16),
		"jmp 1f\n1: movl $0x14ce, %%ecx\n\t" CHANGE_CONTROL(
			"0x20003") "lbr_arch_let_in: jmp 2f\n2:" CHANGE_CONTROL("0x20005") "jmp 3f\n3:");
	EXPECT(from_of(0) == (uint64_t)lbr_arch_let_in && is_clear(1));
}

/* The oldest entry is the way to ring 3. */
TEST(lbr_arch_levels, .group = "LB", .ids = "LB57 LB60", .needs = NEED_LBR,
     .claim =
	     "with USR alone the branches that end in ring 3 are recorded, with OS alone those "
	     "that end in ring 0, with neither none; a WRMSR changes both levels and kinds at once",
     .source = "SDM Vol 3 of 2022, 18.1.2")
{
	unsigned depth = arch_lbr_borrow();

	change_while_on();
	user_branches_open();
	visit_ring_3(ALL & ~LBR_CTL_OS);
	for (unsigned n = 0; n < USER_BRANCHES && n < depth; n++) {
		struct user_branch branch = user_branch(USER_BRANCHES - 1 - n);

		EXPECT(from_of(n) == branch.from && to_of(n) == branch.to);
	}
	if (depth > USER_BRANCHES + 1) {
		EXPECT_EQ(to_of(USER_BRANCHES), VISITS_AT);
		EXPECT(is_clear(USER_BRANCHES + 1));
	}
	visit_ring_3(ALL & ~LBR_CTL_USR);
	EXPECT(!is_clear(0));
	for (unsigned n = 0; n < depth; n++)
		EXPECT(is_clear(n) || to_of(n) >> 63);
	visit_ring_3(ALL & ~(LBR_CTL_OS | LBR_CTL_USR));
	EXPECT(is_clear(0));
	user_branches_close();
	arch_lbr_give_back();
}

/* How many branches within `ring` are recorded with the level `control`. */
static unsigned from_ring(unsigned ring, uint64_t control)
{
	unsigned count = 0;

	wrmsr(IA32_LBR_DEPTH, lbr_caps()->depth);
	own_ring_run(ring, IA32_LBR_CTL, LBR_CTL_LBREN | control | LBR_CTL_KINDS, 0);
	for (unsigned n = 0; n < lbr_caps()->depth; n++)
		count += own_ring_has(rdmsr(IA32_LBR_0_FROM_IP + n));
	return count;
}

/* The ways into the ring and out of it may have two entries. */
TEST(lbr_arch_rings_1_and_2, .group = "LB", .ids = "LB60 LB72", .needs = NEED_LBR,
     .claim = "USR lets the branches of rings 1 and 2 in, OS does not; IA32_LER_* has the last "
	      "one before INT n",
     .source = "SDM Vol 3 of 2022, 18.1.2")
{
	unsigned most;

	most = arch_lbr_borrow() < OWN_RING_JUMPS ? lbr_caps()->depth : OWN_RING_JUMPS;
	own_gdt_load();
	for (unsigned ring = 1; ring <= 2; ring++) {
		EXPECT(from_ring(ring, LBR_CTL_USR) >= most - 2);
		EXPECT_EQ(rdmsr(IA32_LER_FROM_IP),
			  (uint64_t)own_ring_jumps + 2 * (OWN_RING_JUMPS - 1));
		EXPECT_EQ(from_ring(ring, LBR_CTL_OS), 0);
	}
	own_gdt_unload();
	arch_lbr_give_back();
}

/* The entry that leads to `to`, or the depth. */
static unsigned find_entry(uint64_t to)
{
	unsigned n = 0;

	while (n < lbr_caps()->depth && to_of(n) != to)
		n++;
	return n;
}

/* FROM of the newest branch to `to` with `control`; 0: there is none. */
static uint64_t source_with(uint64_t control, uint64_t to)
{
	unsigned n;

	visit_ring_3(control);
	n = find_entry(to);
	return n < lbr_caps()->depth ? from_of(n) : 0;
}

/*
 * The manual says all ones, of how many bits depends on its edition. A hypervisor that records by
 * software may have the source.
 */
static void expect_hidden(const char *name, uint64_t from, uint64_t source)
{
	bool hidden = from == UINT64_MAX || from == UINT32_MAX;

	test_observe(name, "%s", hidden ? "all ones" : "the source");
	EXPECT(hidden || from == source);
}

/* Other branches alone: SYSCALL and SYSRET. */
TEST(lbr_arch_hidden_source, .group = "LB", .ids = "LB57 LB58 LB61", .needs = NEED_LBR,
     .claim = "a branch from a level that is left out to one that is recorded has all ones for "
	      "FROM, or its own source; with both levels it has its source",
     .source = "SDM Vol 3 of 2022, 18.1.2")
{
	const uint64_t other = LBR_CTL_LBREN | OTHERS, entry = (uint64_t)syscall_entry;
	uint64_t from_user, from_kernel;

	arch_lbr_borrow();
	user_branches_open();
	from_user = source_with(other | LBR_CTL_OS | LBR_CTL_USR, entry);
	EXPECT(from_user - VISITS_AT < PAGE_SIZE);
	from_kernel = from_of(find_entry(VISITS_AT) % MOST);
	EXPECT(from_kernel >> 63 && from_kernel != UINT64_MAX);
	expect_hidden("lbr_from_of_syscall", source_with(other | LBR_CTL_OS, entry), from_user);
	expect_hidden("lbr_from_of_return", source_with(other | LBR_CTL_USR, VISITS_AT),
		      from_kernel);
	EXPECT(is_clear(1));
	user_branches_close();
	arch_lbr_give_back();
}

/* Whether a jump or an exception enters while counter `n` counts. */
static bool records(unsigned n)
{
	wrmsr(IA32_LBR_DEPTH, lbr_caps()->depth);
	pmu_rig_control(n, pmu_rig_counting(n, PMU_OS, false));
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1ull << n);
	ARCH_LBR_RECORDED(ALL, "jmp 1f\n1: ud2\n2: nop\n" EXCEPTION_TABLE("1b", "2b"));
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	pmu_rig_control(n, 0);
	return !is_clear(0);
}

/* Counter `n` interrupts while IA32_DEBUGCTL = `freeze`; what IA32_LBR_CTL is then. */
static uint64_t overflow_beside_records(unsigned n, uint64_t freeze)
{
	uint64_t control, newest;

	pmu_rig_interrupt.count = 0;
	pmu_rig_load(n, 20);
	pmu_rig_control(n, pmu_rig_counting(n, PMU_OS, true));
	wrmsr(IA32_DEBUGCTL, freeze);
	wrmsr(IA32_LBR_CTL, ALL);
	pmu_rig_run(1ull << n);
	EXPECT_EQ(pmu_rig_await_interrupt(), 1);
	control = rdmsr(IA32_LBR_CTL);
	newest = from_of(0);
	__asm__ volatile("jmp 1f\n1:");
	EXPECT(freeze || from_of(0) != newest);
	wrmsr(IA32_LBR_CTL, 0);
	wrmsr(IA32_DEBUGCTL, 0);
	pmu_rig_control(n, 0);
	return control;
}

static void expect_freeze(unsigned n)
{
	EXPECT_EQ(overflow_beside_records(n, FREEZE_LBRS), ALL);
	EXPECT_EQ(pmu_rig_interrupt.status & STATUS_LBR_FRZ, STATUS_LBR_FRZ);
	EXPECT(!records(n));
	EXPECT_EQ(msr_try(IA32_LBR_0_FROM_IP, 0x1000, 0).read_back, 0x1000);
	pmu_rig_clear(STATUS_LBR_FRZ);
	EXPECT(records(n));
	EXPECT_EQ(overflow_beside_records(n, 0), ALL);
	EXPECT_EQ(pmu_rig_status() & STATUS_LBR_FRZ, 0);
	pmu_rig_overflow_in_user(n, FREEZE_LBRS);
	EXPECT_EQ(pmu_rig_interrupt.status & STATUS_LBR_FRZ, STATUS_LBR_FRZ);
	pmu_rig_clear(STATUS_LBR_FRZ);
	wrmsr(IA32_PERF_GLOBAL_STATUS_SET, STATUS_LBR_FRZ | STATUS_CTR_FRZ);
	EXPECT(!records(n));
	pmu_rig_clear(STATUS_LBR_FRZ);
	EXPECT(records(n));
	pmu_rig_clear(STATUS_CTR_FRZ);
}

TEST(lbr_arch_freezes, .group = "LB", .ids = "LB63", .needs = NEED_LBR | ON_EACH_CPU,
     .claim =
	     "with FREEZE_LBRS_ON_PMI a counter's interrupt sets LBR_Frz, without it software alone; "
	     "nothing is recorded, but entries can be written, until software clears it; LBREn stays",
     .source = "SDM Vol 3 of 2022, 18.1.4; SDM Vol 3, 18.2.4")
{
	uint64_t all;

	if (!lbr_caps()->architectural || !lbr_caps()->freezes)
		test_skip("no architectural records that LBR_Frz stops");
	all = pmu_rig_open(NO_INSTRUCTIONS);
	user_visits_open();
	pmu_rig_take_interrupts(all);
	wrmsr(IA32_LBR_DEPTH, lbr_caps()->depth);
	EACH_COUNTER (n, all)
		if (n <= PMU_FIXED) /* those of instructions */
			expect_freeze(n);
	pmu_rig_release_interrupts();
	user_visits_close();
	pmu_rig_close(all);
}

#define CALLS (LBR_CTL_LBREN | LBR_CTL_OS | LBR_CTL_CALL_STACK | 7ull << 19)

extern const char lbr_arch_deep[], lbr_arch_deeper[];

/* ESI calls, each inside the one before, the first an indirect one; then EDI of them return. */
__attribute__((noinline)) static void call_deep(uint32_t calls, uint32_t returns)
{
	uint32_t low = (uint32_t)CALLS, high = 0, msr = IA32_LBR_CTL;

	wrmsr(IA32_LBR_DEPTH, rdmsr(IA32_LBR_DEPTH));
	__asm__ volatile("pushfq\n\tcli\n\tmovq %%rsp, %%r8\n\twrmsr\n"
			 "leaq 1f(%%rip), %%rax\nlbr_arch_deep: call *%%rax\n\tjmp 3f\n"
			 "1: decl %%esi\n\tjz 2f\nlbr_arch_deeper: call 1b\n"
			 "2: subl $1, %%edi\n\tjc 3f\n\tret\n"
			 "3: movl $0x14ce, %%ecx\n\txorl %%eax, %%eax\n\txorl %%edx, %%edx\n\t"
			 "wrmsr\n\tmovq %%r8, %%rsp\n\tpopfq"
			 : "+S"(calls), "+D"(returns), "+a"(low), "+d"(high), "+c"(msr)
			 :
			 : "r8", "memory", "cc");
}

/* Those that have not returned and were not pushed out; the oldest of them is lbr_arch_deep. */
static void expect_calls(uint32_t calls, uint32_t returns)
{
	uint32_t depth = (uint32_t)rdmsr(IA32_LBR_DEPTH), held = calls < depth ? calls : depth;
	uint32_t left = held > returns ? held - returns : 0;

	call_deep(calls, returns);
	for (uint32_t n = 0; n < left; n++)
		EXPECT_EQ(from_of(n),
			  (uint64_t)(n + 1 + returns == calls ? lbr_arch_deep : lbr_arch_deeper));
	for (uint32_t n = left; n < depth; n++)
		EXPECT(is_clear(n));
}

static void need_call_stack(void)
{
	if (lbr_caps()->architectural && !(cpuid(LBR_LEAF, 0).ebx & LBR_LEAF_CALL_STACK))
		test_skip("CPUID.1CH:EBX[2] is 0: no CALL_STACK");
}

/* Of as many entries. */
static void expect_call_stack(uint32_t depth)
{
	wrmsr(IA32_LBR_DEPTH, depth);
	expect_calls(3, 0);
	expect_calls(3, 1);
	wrmsr(IA32_DEBUGCTL, 2); /* BTF without TF: all the same */
	ARCH_LBR_RECORDED(CALLS ^ (LBR_CTL_OS | LBR_CTL_USR), "call 1f\n\tjmp 2f\n1: ret\n2:");
	wrmsr(IA32_DEBUGCTL, 0);
	EXPECT_EQ(from_of(1), (uint64_t)lbr_arch_deep);
	expect_calls(3, 3);
	for (uint32_t calls = depth - 1; calls <= depth + 2; calls++) {
		expect_calls(calls, 0);
		expect_calls(calls, 1);
		expect_calls(calls, depth - 1);
		expect_calls(calls, calls);
	}
}

TEST(lbr_arch_call_stack, .group = "LB", .ids = "LB64", .needs = NEED_LBR | ON_EACH_CPU,
     .claim =
	     "at each depth with CALL_STACK a return within a level that is let in takes the newest "
	     "call off, and the last entry becomes 0; more calls than entries leave the newest",
     .source = "SDM Vol 3 of 2022, 18.1.2")
{
	unsigned deepest;

	need_call_stack();
	deepest = arch_lbr_borrow();
	for (unsigned depth = 8; depth <= deepest; depth += 8)
		if (is_depth(depth))
			expect_call_stack(depth);
	arch_lbr_give_back();
}

extern const char lbr_outer_call[];

__attribute__((noinline)) static void call_without_return(void)
{
	ARCH_LBR_RECORDED(CALLS, "lbr_outer_call: call 1f\n\tnop\n1: call 2f\n2: popq %%rbx\n\t"
				 ".byte 0x2e, 0xe8, 0, 0, 0, 0\n\tpopq %%rbx\n\tpopq %%rbx");
}

TEST(lbr_arch_call_of_next, .group = "LB", .ids = "LB77", .needs = NEED_LBR,
     .claim = "with CALL_STACK a call of the next instruction is no entry, in ring 3 neither, and "
	      "the return of the call around it takes that off",
     .source = "SDM Vol 3 of 2022, 18.1.2")
{
	need_call_stack();
	arch_lbr_borrow();
	call_without_return();
	EXPECT_EQ(rdmsr(IA32_LBR_0_FROM_IP), (uint64_t)lbr_outer_call);
	EXPECT_EQ(rdmsr(IA32_LBR_0_FROM_IP + 1), 0);
	wrmsr(IA32_LBR_DEPTH, lbr_caps()->depth);
	ARCH_LBR_RECORDED(CALLS, "call 1f\n\tjmp 3f\n1: call 2f\n2: popq %%rbx\n\tret\n3:");
	EXPECT_EQ(rdmsr(IA32_LBR_0_FROM_IP), 0);
	user_call_of_next_run(IA32_LBR_CTL, CALLS ^ (LBR_CTL_OS | LBR_CTL_USR));
	EXPECT_EQ(rdmsr(IA32_LBR_0_FROM_IP), 0);
	arch_lbr_give_back();
}

TEST(lbr_arch_each_cpu, .group = "LB", .ids = "LB65", .needs = NEED_LBR | NEED_SMP,
     .claim = "the entries, IA32_LBR_CTL and IA32_LBR_DEPTH are each processor's own",
     .source = "SDM Vol 3 of 2022, 18.1")
{
	unsigned depth, least = 8, last = cpu_count() - 1;

	test_go_to(0);
	depth = arch_lbr_borrow(); /* the deepest that there is */
	while (least < depth && !is_depth(least))
		least += 8;
	make_jumps();
	msrs_give_back();
	test_go_to(last);
	arch_lbr_borrow();
	for (unsigned n = 0; n < depth; n++)
		wrmsr(IA32_LBR_0_INFO + n, ~0ull);
	ARCH_LBR_RECORDED(ALL, "jmp 1f\n1:");
	wrmsr(IA32_LBR_CTL, LBR_CTL_LBREN);
	msrs_give_back();
	test_go_to(0);
	msrs_borrow();
	EXPECT_EQ(rdmsr(IA32_LBR_CTL), 0);
	for (unsigned n = 0; n < depth; n++)
		EXPECT(is_jump(n) && (!lbr_caps()->kinds || has_type(n, JMP_DIRECT)));
	arch_lbr_give_back();
	test_go_to(last);
	msrs_borrow();
	EXPECT_EQ(rdmsr(IA32_LBR_CTL), LBR_CTL_LBREN);
	EXPECT(!is_clear(0) && !from_of(1) && !to_of(1));
	wrmsr(IA32_LBR_DEPTH, least);
	msrs_give_back();
	test_go_to(0);
	msrs_borrow();
	EXPECT_EQ(rdmsr(IA32_LBR_DEPTH), depth);
	msrs_give_back();
	test_go_to(last);
	msrs_borrow();
	EXPECT_EQ(rdmsr(IA32_LBR_DEPTH), least);
	arch_lbr_give_back();
}

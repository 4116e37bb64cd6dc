// SPDX-License-Identifier: MIT
// What enters the stack of last branches: MSR_LBR_SELECT, and Intel PT, which suspends it.
#include "drivers/lbr/lbr.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/sched/task.h"
#include "kernel/trap/user.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/pt_rig.h"
#include "tests/lib/rig.h"
#include "tests/lib/user_visits.h"

#define BTF	2ull /* of IA32_DEBUGCTL */
#define NO_JCC	(1ull << 2)
#define ADDRESS ((1ull << 48) - 1)

extern const char lbr_let_in[];

/* MSR_LBR_SELECT, by bit: SDM Vol 3, 17.7.2. */
enum { JCC = 2, CALL, CALL_INDIRECT, RETURN, JUMP_INDIRECT, JUMP, FAR, CALL_STACK };
#define ALL_KINDS 0x1fcull

extern const char lbr_k0[], lbr_k1[], lbr_k2[], lbr_k3[], lbr_k4[], lbr_k5[], lbr_k6[], lbr_k7[];

static const struct {
	const char *from;
	unsigned kind;
} kinds[] = {{lbr_k0, JCC},    {lbr_k1, JCC},		{lbr_k2, CALL},
	     {lbr_k3, RETURN}, {lbr_k4, CALL_INDIRECT}, {lbr_k3, RETURN},
	     {lbr_k5, JUMP},   {lbr_k6, JUMP_INDIRECT}, {lbr_k7, FAR}};

static void branch_each_kind(void)
{
	TRACED(LBR, "xorl %%ecx, %%ecx\nlbr_k0: jz 1f\n1:\nlbr_k1: jrcxz 2f\n2:\n"
		    "lbr_k2: call 3f\n\tleaq 3f(%%rip), %%rax\n"
		    "lbr_k4: call *%%rax\nlbr_k5: jmp 4f\n3: nop\nlbr_k3: ret\n"
		    "4: leaq 5f(%%rip), %%rax\nlbr_k6: jmp *%%rax\n"
		    "5: movq %%cs, %%rax\n\tpushq %%rax\n\tleaq 6f(%%rip), %%rax\n\t"
		    "pushq %%rax\nlbr_k7: lretq\n6:");
}

/* On Nehalem near jumps take calls and returns with them: SDM Vol 3, 17.8. */
static bool is_nehalem(const struct lbr_stack *s)
{
	return s->select && s->first < 0x3a;
}

static void expect_kinds(const struct lbr_stack *s, uint64_t select)
{
	uint32_t before = lbr_top(s);
	unsigned back = 0;

	wrmsr(MSR_LBR_SELECT, select);
	branch_each_kind();
	wrmsr(MSR_LBR_SELECT, 0);
	for (unsigned i = sizeof(kinds) / sizeof(kinds[0]); i--;)
		if (!(select >> kinds[i].kind & 1))
			EXPECT_FROM(s, back++, kinds[i].from);
	EXPECT_EQ(lbr_since(s, before), back);
}

static const struct lbr_stack *open_with_select(void)
{
	if (!lbr_stack()->select)
		test_skip("no MSR_LBR_SELECT before Nehalem");
	return lbr_open();
}

TEST(lbr_select_leaves_out, .group = "pmu", .ids = "LB8", .needs = 0,
     .claim = "JCC of LBR_SELECT leaves conditional branches out of the stack, and no other",
     .source = "SDM Vol 3, 17.7.2")
{
	expect_kinds(open_with_select(), NO_JCC);
	lbr_close();
}

TEST(lbr_select_each_kind, .group = "pmu", .ids = "LB6 LB7 LB8 LB9 LB10 LB11 LB12 LB13 LB17",
     .needs = ON_EACH_CPU,
     .claim = "each bit of LBR_SELECT leaves its kind of branch out, alone, with the others and "
	      "with CPL_NEQ_0, and no other kind",
     .source = "SDM Vol 3, 17.7.2")
{
	const struct lbr_stack *s = open_with_select();

	expect_kinds(s, 0);
	for (unsigned bit = JCC; bit <= FAR; bit++) {
		if (is_nehalem(s) && (bit == JUMP || bit == JUMP_INDIRECT))
			continue;
		expect_kinds(s, 1u << bit);
		expect_kinds(s, 1u << bit | 1u << 1);
		if (!is_nehalem(s))
			expect_kinds(s, 0x1fcu & ~(1u << bit));
	}
	expect_kinds(s, 0x1fc);
	expect_kinds(s, 1u << 1);
	lbr_close();
}

/* Nehalem's near jumps may take calls and returns with them. */
static bool may_be_missing(const struct lbr_stack *s, uint64_t select, unsigned kind)
{
	return is_nehalem(s) && select & (1u << JUMP | 1u << JUMP_INDIRECT) &&
	       (kind == CALL || kind == CALL_INDIRECT || kind == RETURN);
}

static bool is_entry(const struct lbr_stack *s, unsigned back, const struct code_branch *branch)
{
	return (lbr_newest(s, back, false) & ADDRESS) == branch->from &&
	       (lbr_newest(s, back, true) & ADDRESS) == branch->to;
}

/* Of the branches those that `select` lets in are the newest entries, and no others entered. */
static bool enters(const struct lbr_stack *s, const struct code_branches *branches, uint64_t select)
{
	uint32_t before = lbr_top(s);
	unsigned back = 0, entered;

	wrmsr(MSR_LBR_SELECT, select);
	code_branches_run(LBR);
	wrmsr(MSR_LBR_SELECT, 0);
	entered = lbr_since(s, before);
	for (size_t n = branches->count; n--;) {
		const struct code_branch *branch = &branches->branch[n];

		if (select >> branch->kind & 1)
			continue;
		if (back < entered && is_entry(s, back, branch))
			back++;
		else if (!may_be_missing(s, select, branch->kind))
			return false;
	}
	return entered == back;
}

/* LBR_SELECT without one of the kinds that the branches are of, and with one alone; and with all
   other kinds, which leaves none of the branches out. */
static bool enters_by_each_kind(const struct lbr_stack *s, const struct code_branches *branches)
{
	bool right = enters(s, branches, 0) && enters(s, branches, ALL_KINDS);
	uint64_t others = ALL_KINDS;

	for (size_t n = 0; n < branches->count; n++)
		others &= ~(1ull << branches->branch[n].kind);
	right = right && enters(s, branches, others);
	for (unsigned bit = JCC; bit <= FAR && right; bit++) {
		if (others >> bit & 1)
			continue;
		right &= enters(s, branches, 1ull << bit);
		right &= enters(s, branches, ALL_KINDS & ~(1ull << bit));
	}
	return right;
}

TEST(lbr_select_every_encoding, .group = "pmu", .ids = "LB6 LB7 LB8 LB9 LB10 LB11 LB12 LB13",
     .needs = 0,
     .claim = "each bit of LBR_SELECT leaves out every encoding of its kind of branch, alone and "
	      "with the others, and none of another kind",
     .source = "SDM Vol 3, 17.7.2; SDM Vol 2, JMP, CALL, Jcc, LOOP and RET")
{
	static struct code_branches branches;
	const struct lbr_stack *s = open_with_select();
	unsigned form = 0, next;
	bool right;

	code_branches_open(&branches);
	do {
		next = code_branches_build(&branches, form, s->depth - 1u);
		right = enters_by_each_kind(s, &branches);
		if (!right)
			test_note("from form %u to %u", form, next);
		form = next;
	} while (form && right);
	code_branches_close();
	lbr_close();
	EXPECT(right);
}

TEST(lbr_select_reserved, .group = "pmu", .ids = "LB14 LB15", .needs = 0,
     .claim = "LBR_SELECT holds each bit that the processor has, and refuses bits 10 to 63, on "
	      "Nehalem 9 too",
     .source = "SDM Vol 3, 17.7.2")
{
	const struct lbr_stack *s = open_with_select();
	unsigned held = s->depth < 32 ? CALL_STACK : CALL_STACK + 1;

	for (unsigned bit = 0; bit < 64; bit++) {
		uint64_t value = 1ull << bit | 1;
		struct msr_trial trial;

		wrmsr(MSR_LBR_SELECT, 0xa5);
		trial = msr_try(MSR_LBR_SELECT, value, 0xa5);
		if (bit < held)
			EXPECT_EQ(trial.read_back, value);
		else if (bit > CALL_STACK || is_nehalem(s))
			EXPECT(trial.refused && trial.read_back == 0xa5);
	}
	wrmsr(MSR_LBR_SELECT, 0);
	lbr_close();
}

/* From MSR_LBR_SELECT of this CPU to `value`; returns what it was. */
static uint64_t select_on(unsigned cpu, uint64_t value)
{
	uint64_t before;

	test_go_to(cpu);
	open_with_select();
	before = rdmsr(MSR_LBR_SELECT);
	wrmsr(MSR_LBR_SELECT, value);
	lbr_close();
	return before;
}

TEST(lbr_select_each_cpu, .group = "pmu", .ids = "LB78", .needs = NEED_SMP,
     .claim = "from Sandy Bridge on MSR_LBR_SELECT is each processor's own",
     .source = "SDM Vol 3, 17.8")
{
	unsigned last = cpu_count() - 1;

	if (is_nehalem(lbr_stack()))
		test_skip("the two processors of a core share MSR_LBR_SELECT");
	select_on(0, 0x81);
	select_on(last, 0x42);
	EXPECT_EQ(select_on(0, 0), 0x81);
	EXPECT_EQ(select_on(last, 0), 0x42);
}

TEST(lbr_select_while_recording, .group = "pmu", .ids = "LB38 LB80", .needs = ON_EACH_CPU,
     .claim = "while LBR is set an entry takes what is written to it, and MSR_LBR_SELECT filters "
	      "from the WRMSR on that changes it",
     .source = "SDM Vol 3, 17.7.2")
{
	const struct lbr_stack *s = open_with_select();
	uint32_t before = lbr_top(s);

	wrmsr(MSR_LBR_SELECT, 3);
	wrmsr(IA32_DEBUGCTL, LBR);
	wrmsr(s->to, 0x5000);
	wrmsr(IA32_DEBUGCTL, 0);
	EXPECT_EQ(rdmsr(s->to), 0x5000);
	wrmsr(MSR_LBR_SELECT, 1);
	TRACED(LBR, "jmp 1f\n1: movl $0x1c8, %%ecx\n\txorl %%eax, %%eax\n\txorl %%edx, %%edx\n\t"
		    "wrmsr\n\tjmp 2f\nlbr_let_in: jmp 3f\n2: jmp lbr_let_in\n"
		    "3: movl $1, %%eax\n\twrmsr\n\tjmp 4f\n4:");
	wrmsr(MSR_LBR_SELECT, 0);
	EXPECT_EQ(lbr_since(s, before), 3);
	EXPECT_FROM(s, 0, lbr_let_in);
	lbr_close();
}

static void clear_entries(const struct lbr_stack *s)
{
	for (unsigned n = 0; n < s->depth; n++) {
		wrmsr(s->from + n, 0);
		wrmsr(s->to + n, 0);
	}
}

/* Entries whose both ends are in ring 3, or in ring 0. */
static unsigned within(const struct lbr_stack *s, bool user)
{
	unsigned count = 0;

	for (unsigned n = 0; n < s->depth; n++) {
		uint64_t from = rdmsr(s->from + n), to = rdmsr(s->to + n);

		count += to && (from >> 47 & 1) != user && (to >> 47 & 1) != user;
	}
	return count;
}

static void visit_with(const struct lbr_stack *s, uint64_t select)
{
	clear_entries(s);
	wrmsr(MSR_LBR_SELECT, select);
	wrmsr(IA32_DEBUGCTL, LBR);
	user_visits_run();
	wrmsr(IA32_DEBUGCTL, 0);
	wrmsr(MSR_LBR_SELECT, 0);
}

static unsigned visit(const struct lbr_stack *s, uint64_t select, bool user)
{
	clear_entries(s);
	wrmsr(MSR_LBR_SELECT, select);
	user_branches_run(LBR);
	wrmsr(MSR_LBR_SELECT, 0);
	return within(s, user);
}

extern const char lbr_level_ud[], lbr_level_out[];

/* The handler has no branch but its IRETQ: entries that a #UD in ring 0 leaves. */
static unsigned fault_in_ring_0(const struct lbr_stack *s, uint64_t select)
{
	uint32_t before = lbr_top(s);

	wrmsr(MSR_LBR_SELECT, select);
	own_idt_load();
	TRACED_WITH(LBR, "leaq lbr_level_out(%%rip), %%rbx\nlbr_level_ud: ud2\nlbr_level_out:", , ,
		    "rbx");
	own_idt_unload();
	wrmsr(MSR_LBR_SELECT, 0);
	return lbr_since(s, before);
}

TEST(lbr_select_by_level, .group = "pmu", .ids = "LB16 LB17", .needs = 0,
     .claim = "CPL_EQ_0 of LBR_SELECT leaves the branches and exceptions of ring 0 out, CPL_NEQ_0 "
	      "the branches of ring 3",
     .source = "SDM Vol 3, 17.7.2")
{
	const struct lbr_stack *s = open_with_select();

	user_branches_open();
	own_idt_begin(VECTOR_UD, own_handler_resume, false);
	EXPECT_EQ(visit(s, 1, false), 0);
	EXPECT_EQ(within(s, true), USER_BRANCHES);
	EXPECT_EQ(visit(s, 2, true), 0);
	EXPECT(within(s, false) > 0);
	EXPECT_EQ(visit(s, 3, true) + within(s, false), 0);
	EXPECT_EQ(fault_in_ring_0(s, 1), 0);
	EXPECT_EQ(fault_in_ring_0(s, 2), 2);
	user_branches_close();
	lbr_close();
}

/* How many branches within `ring` enter the stack. */
static unsigned from_ring(const struct lbr_stack *s, unsigned ring, uint64_t select)
{
	unsigned count = 0;

	for (unsigned n = 0; n < s->depth; n++)
		wrmsr(s->from + n, 0);
	wrmsr(MSR_LBR_SELECT, select);
	own_ring_run(ring, IA32_DEBUGCTL, LBR, 0);
	wrmsr(MSR_LBR_SELECT, 0);
	for (unsigned back = 0; back < s->depth; back++)
		count +=
			own_ring_has((uint64_t)((int64_t)(lbr_newest(s, back, false) << 16) >> 16));
	return count;
}

/* The ways into the ring and out of it may have two entries. */
TEST(lbr_select_rings_1_and_2, .group = "pmu", .ids = "LB16 LB17 LB22", .needs = 0,
     .claim = "CPL_NEQ_0 of LBR_SELECT leaves the branches of rings 1 and 2 out, CPL_EQ_0 does not",
     .source = "SDM Vol 3, 17.7.2")
{
	const struct lbr_stack *s = open_with_select();
	unsigned most = s->depth < OWN_RING_JUMPS ? s->depth : OWN_RING_JUMPS;

	own_gdt_load();
	for (unsigned ring = 1; ring <= 2; ring++) {
		EXPECT_EQ(from_ring(s, ring, 2), 0);
		EXPECT(from_ring(s, ring, 1) >= most - 2);
		from_ring(s, ring, 1u << JUMP); /* IRETQ and INT n */
		EXPECT_TO(s, 1, own_ring_jumps);
	}
	own_gdt_unload();
	lbr_close();
}

/* True if the newest entry has the SYSCALL at VISITS_SYSCALL_AT, or any. */
static bool has_syscall(const struct lbr_stack *s, bool newest)
{
	for (unsigned back = 0; back < (newest ? 1 : s->depth); back++)
		if (lbr_newest(s, back, false) << 16 >> 16 == VISITS_SYSCALL_AT)
			return true;
	return false;
}

/* To ring 3, by IRETQ or, after VECTOR_SYSCALL, by SYSRET, and back at once by SYSCALL. */
static void cross(uint64_t select, uint64_t vector)
{
	struct trap_frame frame = {.rip = VISITS_SYSCALL_AT, .vector = vector};

	wrmsr(MSR_LBR_SELECT, select);
	wrmsr(IA32_DEBUGCTL, LBR);
	user_run(&frame);
	wrmsr(IA32_DEBUGCTL, 0);
	wrmsr(MSR_LBR_SELECT, 0);
}

/* The newest entries are the SYSCALL and the way to it, unless an interrupt was between, which has
   an entry from there. */
static bool has_both_crossings(const struct lbr_stack *s, uint64_t vector)
{
	for (unsigned turn = 0; turn < 100; turn++) {
		clear_entries(s);
		cross(ALL_KINDS & ~(1ull << FAR), vector);
		if (has_syscall(s, true) && lbr_newest(s, 1, true) == VISITS_SYSCALL_AT &&
		    lbr_newest(s, 2, false) << 16 >> 16 != VISITS_SYSCALL_AT)
			return true;
	}
	return false;
}

/* One of the two, though FAR_BRANCH leaves both out. No other branch enters in its place. */
static bool has_a_crossing(const struct lbr_stack *s, uint64_t vector)
{
	bool has;

	clear_entries(s);
	cross(ALL_KINDS, vector);
	has = has_syscall(s, false);
	for (unsigned n = 0; n < s->depth; n++)
		has |= rdmsr(s->to + n) == VISITS_SYSCALL_AT;
	return has;
}

extern const char lbr_sysexit[], lbr_syscall_back[];

/* To ring 3 by SYSEXIT, and back at once by SYSCALL: entries that they leave. Nothing loads the
   selectors that SYSEXIT makes, and RSP stays as it is. */
static unsigned sysexit_and_back(const struct lbr_stack *s, uint64_t select)
{
	uint64_t entry = rdmsr(IA32_LSTAR), selector = rdmsr(IA32_SYSENTER_CS);
	uint64_t flags = interrupts_save();
	uint32_t before = lbr_top(s);

	wrmsr(IA32_LSTAR, (uint64_t)lbr_syscall_back);
	wrmsr(IA32_SYSENTER_CS, KERNEL_CODE);
	wrmsr(MSR_LBR_SELECT, select);
	TRACED_WITH(LBR,
		    "movq %[at], %%rdx\n\tmovq %%rsp, %%rcx\n"
		    "lbr_sysexit: sysexitq\nlbr_syscall_back:",
		    , OPERANDS([at] "r"(VISITS_SYSCALL_AT)), "r11");
	wrmsr(MSR_LBR_SELECT, 0);
	wrmsr(IA32_SYSENTER_CS, selector);
	wrmsr(IA32_LSTAR, entry);
	interrupts_restore(flags);
	return lbr_since(s, before);
}

/* The manual names exceptions beside branches (17.4.2). It says that FAR_BRANCH leaves out far
   branches, of which IRET is one, and says so of no exception. */
TEST(lbr_select_far_events, .group = "pmu", .ids = "LB6 LB13 LB21 LB22", .needs = 0,
     .claim =
	     "SYSCALL, SYSRET, SYSEXIT and IRET are far branches to LBR_SELECT, exceptions may be; no "
	     "other bit leaves any of them out",
     .source = "SDM Vol 3, 17.4.2 and 17.7.2")
{
	const struct lbr_stack *s = open_with_select();
	unsigned beside_far;

	own_idt_begin(VECTOR_UD, own_handler_resume, false);
	user_visits_open();
	EXPECT(has_both_crossings(s, 0));
	EXPECT(has_both_crossings(s, VECTOR_SYSCALL));
	EXPECT(!has_a_crossing(s, 0) && !has_a_crossing(s, VECTOR_SYSCALL));
	EXPECT_EQ(sysexit_and_back(s, ALL_KINDS), 0);
	EXPECT_EQ(sysexit_and_back(s, ALL_KINDS & ~(1ull << FAR)), 2);
	EXPECT_FROM(s, 1, lbr_sysexit);
	EXPECT_TO(s, 1, VISITS_SYSCALL_AT);
	for (unsigned bit = JCC; bit < FAR; bit++) {
		visit_with(s, ALL_KINDS & ~(1ull << bit));
		EXPECT(!has_syscall(s, false));
		EXPECT_EQ(fault_in_ring_0(s, 1ull << bit), 2);
	}
	beside_far = fault_in_ring_0(s, 1ull << FAR);
	test_observe("exceptions", "%s", beside_far ? "enter beside FAR_BRANCH" : "far branches");
	EXPECT(beside_far <= 1);
	EXPECT(!beside_far ||
	       ((lbr_newest(s, 0, true) ^ (uint64_t)own_handler_resume) & ADDRESS) == 0);
	user_visits_close();
	lbr_close();
}

/* JCC, jumps and far branches out, CPL_NEQ_0; calls and returns in: SDM Vol 3, 17.9. */
#define CALLS (1u << CALL_STACK | 1u << FAR | 1u << JUMP | 1u << JUMP_INDIRECT | 1u << JCC | 2u)

static const struct lbr_stack *open_with_call_stack(void)
{
	const struct lbr_stack *s = open_with_select();

	if (!msr_try(MSR_LBR_SELECT, 1u << CALL_STACK, 0).refused)
		return s;
	lbr_close();
	test_skip("no EN_CALLSTACK before Haswell");
}

extern const char lbr_deep[], lbr_deeper[];

/* `calls` calls, each inside the one before, then `returns` of them return. */
static void call_deep(uint32_t calls, uint32_t returns)
{
	TRACED_WITH(LBR,
		    "movq %%rsp, %%r8\n\tmovl %[calls], %%ecx\n\tmovl %[returns], %%edx\n"
		    "lbr_deep: call 1f\n\tjmp 3f\n"
		    "1: decl %%ecx\n\tjz 2f\nlbr_deeper: call 1b\n"
		    "2: subl $1, %%edx\n\tjc 3f\n\tret\n"
		    "3: movq %%r8, %%rsp",
		    , OPERANDS([calls] "r"(calls), [returns] "r"(returns)), "r8");
}

static void expect_calls(const struct lbr_stack *s, uint32_t calls, uint32_t returns)
{
	uint32_t before = lbr_top(s), kept = calls - returns;

	wrmsr(MSR_LBR_SELECT, CALLS);
	call_deep(calls, returns);
	wrmsr(MSR_LBR_SELECT, 0);
	EXPECT_EQ(lbr_top(s), (before + kept) & (s->depth - 1u));
	for (unsigned back = 0; back < kept && back + returns < s->depth; back++)
		EXPECT_FROM(s, back, (back + 1 == kept ? lbr_deep : lbr_deeper));
}

extern const char lbr_pair[];

/* CALL and RET n leave TOS where it was, an indirect CALL and RET too, and so does a CALL of the
   next instruction; one of the next but one is a call like others. TOS is where it was written.
   With CPL_EQ_0 in the place of CPL_NEQ_0 none takes it off, and one of the next instruction in
   ring 3 does not enter either. */
static void expect_nothing_left(const struct lbr_stack *s)
{
	uint32_t before = lbr_top(s) ^ 1;

	wrmsr(MSR_LBR_SELECT, CALLS);
	wrmsr(s->top, before);
	TRACED(LBR, "pushq $0\n\tpushq $0\n\tcall 1f\n\tjmp 2f\n1: ret $16\n"
		    "2: leaq 1f(%%rip), %%rax\n\tcall *%%rax\n\tjmp 2f\n1: ret\n"
		    "2: call 1f\n1: popq %%rax\n\t.byte 0x2e, 0xe8, 0, 0, 0, 0\n\tpopq %%rax");
	EXPECT_EQ(lbr_top(s), before);
	TRACED(LBR, "lbr_pair: call 1f\n\tnop\n1: popq %%rax");
	EXPECT_EQ(lbr_since(s, before), 1);
	EXPECT_FROM(s, 0, lbr_pair);
	wrmsr(MSR_LBR_SELECT, CALLS ^ 3);
	user_call_of_next_run(IA32_DEBUGCTL, LBR);
	EXPECT_EQ(lbr_since(s, before), 1);
	TRACED(LBR | BTF, "call 1f\n\tjmp 2f\n1: ret\n2:"); /* BTF without TF: all the same */
	EXPECT_EQ(lbr_since(s, before), 1);
	wrmsr(MSR_LBR_SELECT, 0);
}

TEST(lbr_call_stack, .group = "pmu", .ids = "LB18 LB19 LB20 LB38", .needs = ON_EACH_CPU,
     .claim = "with EN_CALLSTACK the LBR stack holds the calls that have not returned, from each "
	      "place of TOS, and the newest ones after more than it has entries; a call of the "
	      "next instruction is not among them",
     .source = "SDM Vol 3, 17.9")
{
	const struct lbr_stack *s = open_with_call_stack();

	for (unsigned n = 0; n < s->depth; n++) {
		expect_calls(s, 3, 1);
		TRACED(LBR, "jmp 1f\n1:");
		expect_calls(s, 3, 3);
	}
	for (uint32_t calls = s->depth - 1u; calls <= s->depth + 1u; calls++) {
		expect_calls(s, calls, 0);
		expect_calls(s, calls, s->depth - 2u);
	}
	expect_calls(s, 65, 0);
	expect_nothing_left(s);
	lbr_close();
}

extern const char lbr_leaf[], lbr_leaf_to[];

/* The manual leaves open what an entry holds that was taken off. The test marks LBR_INFO, or TO,
   before. */
static void expect_flushed(const struct lbr_stack *s)
{
	bool has_info = (pmu_rig_capabilities() & 0x3f) == 5;
	uint32_t mark = (has_info ? 0xdc0 : s->to) + ((lbr_top(s) + 1) & (s->depth - 1u));
	bool held;

	wrmsr(MSR_LBR_SELECT, CALLS);
	TRACED_WITH(LBR,
		    "lbr_leaf: call lbr_leaf_to\n\tjmp 2f\n"
		    "lbr_leaf_to: movl %[mark], %%ecx\n\tmovl $1, %%eax\n\txorl %%edx, %%edx\n\t"
		    "wrmsr\n\tret\n2:",
		    , OPERANDS([mark] "r"(mark)));
	wrmsr(MSR_LBR_SELECT, 0);
	held = rdmsr(mark) == 1;
	for (unsigned n = 0; n < s->depth; n++)
		held |= (uint32_t)rdmsr(s->from + n) == (uint32_t)(uint64_t)lbr_leaf ||
			(uint32_t)rdmsr(s->to + n) == (uint32_t)(uint64_t)lbr_leaf_to;
	EXPECT(!held);
}

TEST(lbr_call_stack_flushes, .group = "pmu", .ids = "LB71", .needs = 0,
     .claim = "with EN_CALLSTACK a return flushes its call from the registers",
     .source = "SDM Vol 3, 17.9")
{
	const struct lbr_stack *s = open_with_call_stack();

	for (unsigned n = 0; n < s->depth; n++) {
		uint32_t before = lbr_top(s);

		expect_flushed(s);
		TRACED(LBR, "jmp 1f\n1:");
		EXPECT_EQ(lbr_since(s, before), 1);
	}
	lbr_close();
}

#define LBR_NO_CALLS 8ull /* of MSR_LBR_SELECT: SDM Vol 3, table 17-9 */
extern const char lbr_again[];

static bool reads_zero(const struct lbr_stack *s)
{
	uint64_t any = rdmsr(s->top) | (s->select ? rdmsr(MSR_LBR_SELECT) : 0);

	for (unsigned n = 0; n < s->depth; n++)
		any |= rdmsr(s->from + n) | rdmsr(s->to + n) |
		       (lbr_caps()->info ? rdmsr(lbr_caps()->info + n) : 0);
	return !any;
}

/* Its first entry, and TOS. */
static void mark(const struct lbr_stack *s, uint64_t value)
{
	wrmsr(s->from, value);
	wrmsr(s->to, value);
	wrmsr(s->top, value);
	if (lbr_caps()->info)
		wrmsr(lbr_caps()->info, value);
}

TEST(lbr_suspended_by_pt, .group = "pmu", .ids = "BF6", .needs = NEED_PT,
     .claim = "where the manual excludes LBR and Intel PT the registers of the LBR stack read 0 "
	      "and drop writes while TraceEn is set, and the stack is empty after; then it goes on",
     .source = "SDM Vol 3, 36.3.1.2")
{
	const struct lbr_stack *s = lbr_stack();
	struct pt_rig pt;
	bool zero;

	if (!ds_caps()->suspended_by_pt)
		test_skip("this processor records last branches while Intel PT traces");
	lbr_open();
	pt_open(&pt, 1, false);
	TRACED(LBR, "movl $33, %%ecx\n1: decl %%ecx\n\tjnz 1b");
	mark(s, 1);
	wrmsr(MSR_LBR_SELECT, LBR_NO_CALLS);
	wrmsr(IA32_RTIT_CTL, pt_on(PT_PLAIN));
	zero = reads_zero(s);
	mark(s, 2);
	wrmsr(MSR_LBR_SELECT, 0);
	TRACED(LBR, "jmp 1f\n1:");
	zero &= reads_zero(s);
	pt_stop(&pt.trace);
	EXPECT(zero);
	EXPECT_EQ(rdmsr(MSR_LBR_SELECT), LBR_NO_CALLS);
	EXPECT((lbr_top(s) + 1) % s->depth <= 2); /* as it was, or reset with the entries */
	wrmsr(MSR_LBR_SELECT, 0);
	for (unsigned n = 0; n < s->depth; n++)
		EXPECT(!rdmsr(s->from + n) && !rdmsr(s->to + n));
	TRACED(LBR, "lbr_again: jmp lbr_again_to\n\tud2\nlbr_again_to:");
	EXPECT_FROM(s, 0, lbr_again);
	pt_close(&pt);
	lbr_close();
}

// SPDX-License-Identifier: MIT
// The stack of last branches.
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/sched/task.h"
#include "kernel/trap/trap.h"
#include "tests/framework/test.h"
#include "tests/lib/msr_trial.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/rig.h"
#include "tests/lib/user_visits.h"

#define NO_JCC	(1ull << 2)
#define ADDRESS ((1ull << 48) - 1)

extern const char lbr_call[], lbr_called[], lbr_return[], lbr_jump[], lbr_loop[], lbr_landed[];

/* CALL, RET, JMP over two bytes, JNZ taken twice and not taken once. */
#define BRANCHES                                                                                   \
	"lbr_call: call lbr_called\n\t"                                                            \
	"jmp lbr_jump\n"                                                                           \
	"lbr_called: nop\nlbr_return: ret\n"                                                       \
	"lbr_jump: jmp lbr_landed\n\tud2\n"                                                        \
	"lbr_landed: movl $3, %%ecx\n"                                                             \
	"1: decl %%ecx\nlbr_loop: jnz 1b\n\t"

TEST(lbr_holds_last_branches, .group = "pmu", .ids = "LB1 LB2", .needs = 0,
     .claim = "LBR keeps the newest taken branches in its stack, TOS says which is the newest",
     .source = "SDM Vol 3, 17.4.8")
{
	const struct lbr_stack *s = lbr_open();

	TRACED(LBR, BRANCHES);
	EXPECT_EQ(lbr_newest(s, 0, false) & ADDRESS, (uint64_t)lbr_loop & ADDRESS);
	EXPECT_EQ(lbr_newest(s, 1, false) & ADDRESS, (uint64_t)lbr_loop & ADDRESS);
	EXPECT_EQ(lbr_newest(s, 2, false) & ADDRESS, (uint64_t)lbr_jump & ADDRESS);
	EXPECT_EQ(lbr_newest(s, 2, true) & ADDRESS, (uint64_t)lbr_landed & ADDRESS);
	if (s->depth > 4) {
		EXPECT_EQ(lbr_newest(s, 4, false) & ADDRESS, (uint64_t)lbr_return & ADDRESS);
		EXPECT_EQ(lbr_newest(s, 5, false) & ADDRESS, (uint64_t)lbr_call & ADDRESS);
		EXPECT_EQ(lbr_newest(s, 5, true) & ADDRESS, (uint64_t)lbr_called & ADDRESS);
	}
	lbr_close();
}

TEST(lbr_wraps, .group = "pmu", .ids = "LB3 LB4", .needs = 0,
     .claim = "a branch more than the LBR stack has entries replaces the oldest",
     .source = "SDM Vol 3, 17.4.8")
{
	const struct lbr_stack *s = lbr_open();
	uint64_t top, before;

	TRACED(LBR, "jmp 1f\n1:");
	before = rdmsr(s->top);
	TRACED(LBR, "movl $201, %%ecx\n1: decl %%ecx\n\tjnz 1b");
	top = rdmsr(s->top);
	EXPECT_EQ(top, (before + 200) & (s->depth - 1u));
	for (unsigned back = 1; back < s->depth; back++)
		EXPECT_EQ(lbr_newest(s, back, false) & ADDRESS, lbr_newest(s, 0, false) & ADDRESS);
	TRACED(0, "jmp 1f\n1:");
	EXPECT_EQ(rdmsr(s->top), top);
	lbr_close();
}

extern const char lbr_first[], lbr_second[];

TEST(lbr_select_leaves_out, .group = "pmu", .ids = "LB8", .needs = 0,
     .claim = "JCC of LBR_SELECT leaves conditional branches out of the stack, and no other",
     .source = "SDM Vol 3, 17.7.2")
{
	const struct lbr_stack *s = lbr_stack();

	if (!s->select)
		test_skip("no MSR_LBR_SELECT before Nehalem");
	lbr_open();
	wrmsr(MSR_LBR_SELECT, NO_JCC);
	TRACED(LBR, "lbr_first: jmp 1f\n1: movl $9, %%ecx\n2: decl %%ecx\n\tjnz 2b\n"
		    "lbr_second: jmp 3f\n3:");
	wrmsr(MSR_LBR_SELECT, 0);
	EXPECT_EQ(lbr_newest(s, 0, false) & ADDRESS, (uint64_t)lbr_second & ADDRESS);
	EXPECT_EQ(lbr_newest(s, 1, false) & ADDRESS, (uint64_t)lbr_first & ADDRESS);
	lbr_close();
}

/* Both at once: the records and the stack tell of the same branches. */
TEST(lbr_agrees_with_bts, .group = "pmu", .ids = "LB2", .needs = NEED_BTS,
     .claim = "the LBR stack and the records of BTS hold the same branches",
     .source = "SDM Vol 3, 17.4.4 and 17.4.8")
{
	const struct lbr_stack *s = lbr_stack();
	struct msr_trial trial;
	struct rig rig;

	rig_open(&rig, 16);
	trial = msr_try(IA32_DEBUGCTL, rig_all() | LBR, 0);
	if (trial.refused || trial.read_back != (rig_all() | LBR)) {
		rig_close(&rig);
		test_skip("TR and LBR cannot be set together on this processor");
	}
	rig_reset(&rig);
	TRACED(rig_all() | LBR, "jmp 1f\n1: movl $4, %%ecx\n2: decl %%ecx\n\tjnz 2b\n\tjmp 3f\n3:");
	REQUIRE_EQ(rig_count(&rig), 5);
	for (unsigned back = 0; back < 5; back++) {
		struct bts_struct record = rig_record(&rig, 4 - back);

		EXPECT_EQ(lbr_newest(s, back, false) & ADDRESS, record.from & ADDRESS);
		EXPECT_EQ(lbr_newest(s, back, true) & ADDRESS, record.to & ADDRESS);
	}
	rig_close(&rig);
}

/* Entries are written and read whole: what is in them besides the address, by LBR_FMT of
   IA32_PERF_CAPABILITIES (SDM Vol 3, 17.4.8.1): flags in bits 63 to 61. */
static uint64_t from_flags(void)
{
	unsigned format = pmu_rig_capabilities() & 0x3f;

	return format == 3 ? 1ull << 63 : format == 4 ? 7ull << 61 : 0;
}

extern const char lbr_chain[];

/* 65 jumps, each to the next: twice the deepest stack, and one. */
TEST(lbr_every_entry, .group = "pmu", .ids = "LB2 LB3 LB5", .needs = 0,
     .claim = "each entry of the LBR stack holds the whole addresses of another branch, newest "
	      "first, after more branches than it has entries",
     .source = "SDM Vol 3, 17.4.8 and 17.4.8.1")
{
	const struct lbr_stack *s = lbr_open();
	uint64_t flags = from_flags();

	TRACED(LBR, "lbr_chain: .rept 65\n\tjmp 1f\n1:\n\t.endr");
	for (unsigned back = 0; back < s->depth; back++) {
		uint64_t from = (uint64_t)lbr_chain + 2 * (64 - back);

		EXPECT_EQ(lbr_newest(s, back, false) | flags, from | flags);
		EXPECT_EQ(lbr_newest(s, back, true), from + 2);
	}
	lbr_close();
}

/* MSR_LBR_SELECT, by bit: SDM Vol 3, 17.7.2. */
enum { JCC = 2, CALL, CALL_INDIRECT, RETURN, JUMP_INDIRECT, JUMP, FAR, CALL_STACK };

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
	return s->first == 0x1a;
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
			EXPECT_EQ(lbr_newest(s, back++, false) & ADDRESS,
				  (uint64_t)kinds[i].from & ADDRESS);
	EXPECT_EQ(lbr_since(s, before), back);
}

static const struct lbr_stack *open_with_select(void)
{
	if (!lbr_stack()->select)
		test_skip("no MSR_LBR_SELECT before Nehalem");
	return lbr_open();
}

TEST(lbr_select_each_kind, .group = "pmu", .ids = "LB6 LB7 LB8 LB9 LB10 LB11 LB12 LB13", .needs = 0,
     .claim =
	     "each bit of LBR_SELECT leaves its kind of branch out, alone and with the others, and "
	     "no other kind",
     .source = "SDM Vol 3, 17.7.2")
{
	const struct lbr_stack *s = open_with_select();

	expect_kinds(s, 0);
	for (unsigned bit = JCC; bit <= FAR; bit++) {
		if (is_nehalem(s) && (bit == JUMP || bit == JUMP_INDIRECT))
			continue;
		expect_kinds(s, 1u << bit);
		if (!is_nehalem(s))
			expect_kinds(s, 0x1fcu & ~(1u << bit));
	}
	expect_kinds(s, 0x1fc);
	expect_kinds(s, 1u << 1);
	lbr_close();
}

TEST(lbr_select_reserved, .group = "pmu", .ids = "LB14 LB15", .needs = 0,
     .claim = "LBR_SELECT holds each bit that the processor has, and refuses bits 10 to 63, on "
	      "Nehalem 9 too",
     .source = "SDM Vol 3, 17.7.2")
{
	const struct lbr_stack *s = open_with_select();
	unsigned held = is_nehalem(s) || s->first == 0x3a ? CALL_STACK : CALL_STACK + 1;

	for (unsigned bit = 0; bit < 64; bit++) {
		struct msr_trial trial = msr_try(MSR_LBR_SELECT, 1ull << bit, 0);

		if (bit < held)
			EXPECT_EQ(trial.read_back, 1ull << bit);
		else if (bit > CALL_STACK || is_nehalem(s))
			EXPECT(trial.refused && !trial.read_back);
	}
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

static unsigned visit(const struct lbr_stack *s, uint64_t select, bool user)
{
	clear_entries(s);
	wrmsr(MSR_LBR_SELECT, select);
	wrmsr(IA32_DEBUGCTL, LBR);
	user_visits_run();
	wrmsr(IA32_DEBUGCTL, 0);
	wrmsr(MSR_LBR_SELECT, 0);
	return within(s, user);
}

TEST(lbr_select_by_level, .group = "pmu", .ids = "LB16 LB17", .needs = 0,
     .claim = "CPL_EQ_0 of LBR_SELECT leaves the branches of ring 0 out, CPL_NEQ_0 those of ring 3",
     .source = "SDM Vol 3, 17.7.2")
{
	const struct lbr_stack *s = open_with_select();

	user_visits_open();
	EXPECT_EQ(visit(s, 1, false), 0);
	EXPECT(within(s, true) > 0);
	EXPECT_EQ(visit(s, 2, true), 0);
	EXPECT(within(s, false) > 0);
	EXPECT_EQ(visit(s, 3, true) + within(s, false), 0);
	user_visits_close();
	lbr_close();
}

/* JCC, jumps and far branches out, CPL_NEQ_0; calls and returns in: SDM Vol 3, 17.9. */
#define CALLS (1u << CALL_STACK | 1u << FAR | 1u << JUMP | 1u << JUMP_INDIRECT | 1u << JCC | 2u)

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
		EXPECT_EQ(lbr_newest(s, back, false) & ADDRESS,
			  (uint64_t)(back + 1 == kept ? lbr_deep : lbr_deeper) & ADDRESS);
}

TEST(lbr_call_stack, .group = "pmu", .ids = "LB18 LB19 LB20", .needs = 0,
     .claim = "with EN_CALLSTACK the LBR stack holds the calls that have not returned, from each "
	      "place of TOS, and the newest ones after more than it has entries; a call of the "
	      "next instruction is not among them",
     .source = "SDM Vol 3, 17.9")
{
	const struct lbr_stack *s = open_with_select();
	uint32_t before;

	if (msr_try(MSR_LBR_SELECT, 1u << CALL_STACK, 0).refused) {
		lbr_close();
		test_skip("no EN_CALLSTACK before Haswell");
	}
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
	before = lbr_top(s);
	wrmsr(MSR_LBR_SELECT, CALLS);
	TRACED(LBR, "call 1f\n1: popq %%rax");
	wrmsr(MSR_LBR_SELECT, 0);
	EXPECT_EQ(lbr_top(s), before);
	lbr_close();
}

extern const char lbr_ud[], lbr_int[];

/* Far branches alone: the kernel's handler has none but its IRET. */
TEST(lbr_exceptions, .group = "pmu", .ids = "LB21 LB22", .needs = 0,
     .claim =
	     "an exception is in the LBR stack, from the instruction to the handler, and so is IRET",
     .source = "SDM Vol 3, 17.4.8 and 17.11.2")
{
	const struct lbr_stack *s = open_with_select();

	wrmsr(MSR_LBR_SELECT, 0x1fc & ~(1u << FAR));
	TRACED(LBR, "lbr_ud: ud2\nlbr_int: nop\n" EXCEPTION_TABLE("lbr_ud", "lbr_int"));
	wrmsr(MSR_LBR_SELECT, 0);
	EXPECT_EQ(lbr_newest(s, 1, false) & ADDRESS, (uint64_t)lbr_ud & ADDRESS);
	EXPECT_EQ(lbr_newest(s, 1, true), trap_entry(VECTOR_UD));
	EXPECT_EQ(lbr_newest(s, 0, true), (uint64_t)lbr_int);
	lbr_close();
}

/* Where the flag is: bit 63 of FROM, or of LBR_INFO in format 5. */
static bool is_mispredicted(const struct lbr_stack *s, unsigned back)
{
	uint32_t place = (lbr_top(s) - back) & (s->depth - 1u);
	bool info = (pmu_rig_capabilities() & 0x3f) == 5;

	return rdmsr((info ? 0xdc0 : s->from) + place) >> 63;
}

/* Of the newest half, in 20 runs whose branches go by random bits, or not. */
static unsigned count_mispredicted(const struct lbr_stack *s, bool random)
{
	unsigned count = 0;

	for (unsigned run = 0; run < 20; run++) {
		uint64_t bits = random ? test_random() : UINT64_MAX;

		TRACED_WITH(LBR,
			    "movl $64, %%ecx\n"
			    "1: shrq %[bits]\n\tjc 2f\n\tnop\n2: decl %%ecx\n\tjnz 1b",
			    OPERANDS([bits] "+&r"(bits)), );
		for (unsigned back = 1; back <= s->depth / 2u; back++)
			count += is_mispredicted(s, back);
	}
	return count;
}

TEST(lbr_mispredicted, .group = "pmu", .ids = "LB23", .needs = 0,
     .claim = "branches of a random direction are often marked mispredicted, steady ones seldom",
     .source = "SDM Vol 3, 17.4.8.1")
{
	unsigned format = pmu_rig_capabilities() & 0x3f, random, steady, most;
	const struct lbr_stack *s = lbr_stack();

	if (format < 3 || format > 5)
		test_skip("format %u of last branch records has no flag", format);
	lbr_open();
	random = count_mispredicted(s, true);
	steady = count_mispredicted(s, false);
	most = 20u * s->depth / 2u;
	lbr_close();
	test_observe("lbr_mispredicted", "%u random, %u steady, of %u", random, steady, most);
	EXPECT(random > most / 20);
	EXPECT(steady < most / 5);
}

/* Leaves IA32_DEBUGCTL in R8, TOS in R10; clears TF of the frame. */
extern const char lbr_db_handler[];
__asm__(".pushsection .text\nlbr_db_handler:\n\t"
	"movl $0x1d9, %ecx\n\trdmsr\n\tmovl %eax, %r8d\n\t"
	"andq $~0x100, 16(%rsp)\n\tiretq\n.popsection");

TEST(lbr_debug_exception, .group = "pmu", .ids = "LB28 LB29", .needs = 0,
     .claim = "a debug exception clears LBR and is not in the LBR stack",
     .source = "SDM Vol 3, 17.4.2")
{
	const struct lbr_stack *s = lbr_open();
	uint32_t before = lbr_top(s);
	uint64_t debugctl = LBR;

	own_idt_copy();
	own_idt_set(VECTOR_DB, lbr_db_handler, false);
	own_idt_load();
	TRACED_WITH(LBR, "pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tnop\n\tmovq %%r8, %[debugctl]",
		    OPERANDS([debugctl] "=&r"(debugctl)), , "r8");
	own_idt_unload();
	__asm__ volatile("movq %0, %%dr6" : : "r"(DR6_RESET));
	EXPECT_EQ(debugctl & LBR, 0);
	EXPECT_EQ(lbr_top(s), before);
	lbr_close();
}

static void go_to(unsigned cpu)
{
	task_set_affinity(current_task(), cpu_set_of(cpu));
}

/* With entries of its own; on hardware threads LBR_SELECT may be the core's. */
static uint64_t branch_here(uint32_t *top)
{
	const struct lbr_stack *s = lbr_open();
	uint64_t from;

	TRACED(LBR, "jmp 1f\n1:");
	*top = lbr_top(s);
	from = lbr_newest(s, 0, false);
	lbr_close();
	return from;
}

TEST(lbr_each_cpu, .group = "pmu", .ids = "LB30", .needs = NEED_SMP,
     .claim = "the LBR stack and its TOS are each processor's own, and so is LBR",
     .source = "SDM Vol 3, chapter 35")
{
	unsigned last = cpu_count() - 1;
	const struct lbr_stack *s;
	uint32_t top, other;
	uint64_t from;

	go_to(0);
	from = branch_here(&top);
	go_to(last);
	s = lbr_open();
	for (unsigned n = 0; n < s->depth; n++)
		wrmsr(s->from + n, 0);
	TRACED(LBR, "jmp 1f\n1:");
	other = lbr_top(s);
	if (other == top)
		TRACED(LBR, "jmp 1f\n1:");
	other = lbr_top(s);
	lbr_close();
	go_to(0);
	s = lbr_open();
	EXPECT_EQ(lbr_top(s), top);
	EXPECT_EQ(lbr_newest(s, 0, false), from);
	wrmsr(IA32_DEBUGCTL, LBR);
	EXPECT_EQ(rdmsr(IA32_DEBUGCTL), LBR);
	wrmsr(IA32_DEBUGCTL, 0);
	lbr_close();
	go_to(last);
	s = lbr_open();
	EXPECT_EQ(lbr_top(s), other);
	lbr_close();
}

// SPDX-License-Identifier: MIT
// The stack of last branches.
#include "drivers/lbr/lbr.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/sched/task.h"
#include "kernel/silicon.h"
#include "kernel/smp/smp.h"
#include "kernel/trap/trap.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/rig.h"
#include "tests/lib/user_visits.h"

#define ADDRESS ((1ull << 48) - 1)

extern const char lbr_call[], lbr_called[], lbr_return[], lbr_over[], lbr_jump[], lbr_landed[],
	lbr_top_of_loop[], lbr_loop[];

/* CALL, RET, JMP over two bytes, CPUID, a string of two bytes, JNZ taken twice and once not. */
#define BRANCHES                                                                                   \
	"lbr_call: call lbr_called\n\t"                                                            \
	"lbr_over: jmp lbr_jump\n"                                                                 \
	"lbr_called: nop\nlbr_return: ret\n"                                                       \
	"lbr_jump: jmp lbr_landed\n\tud2\n"                                                        \
	"lbr_landed: xorl %%eax, %%eax\n\tcpuid\n\tmovl $2, %%ecx\n\trep lodsb\n\t"                \
	"movl $3, %%ecx\n"                                                                         \
	"lbr_top_of_loop: decl %%ecx\nlbr_loop: jnz lbr_top_of_loop\n\t"

TEST(lbr_holds_last_branches, .group = "pmu", .ids = "LB1 LB2", .needs = 0,
     .claim = "LBR keeps the newest taken branches in its stack, TOS says which is the newest",
     .source = "SDM Vol 3, 17.4.8")
{
	LBR_STACK(s);
	static const char *const newest_first[][2] = {
		{lbr_loop, lbr_top_of_loop}, {lbr_loop, lbr_top_of_loop}, {lbr_jump, lbr_landed},
		{lbr_over, lbr_jump},	     {lbr_return, lbr_over},	  {lbr_call, lbr_called}};
	const struct lbr_stack *from = s;

	TRACED_WITH(LBR, BRANCHES, OPERANDS("+&S"(from)), , "rbx");
	for (unsigned back = 0; back < 6 && back < s->depth; back++) {
		EXPECT_FROM(s, back, newest_first[back][0]);
		EXPECT_TO(s, back, newest_first[back][1]);
	}
}

TEST(lbr_wraps, .group = "pmu", .ids = "LB3 LB4", .needs = 0,
     .claim = "a branch more than the LBR stack has entries replaces the oldest",
     .source = "SDM Vol 3, 17.4.8")
{
	LBR_STACK(s);
	uint64_t top, before;

	TRACED(LBR, "jmp 1f\n1:");
	before = rdmsr(s->top);
	TRACED(LBR, "movl $201, %%ecx\n1: decl %%ecx\n\tjnz 1b");
	top = rdmsr(s->top);
	EXPECT_EQ(top, (before + 200) & (s->depth - 1u));
	for (unsigned back = 1; back < s->depth; back++)
		EXPECT_FROM(s, back, lbr_newest(s, 0, false));
	TRACED(0, "jmp 1f\n1:");
	EXPECT_EQ(rdmsr(s->top), top);
}

extern const char lbr_one[], lbr_one_to[];

/* Once round the stack and on: each jump is in the place after that of the one before. */
TEST(lbr_each_place, .group = "pmu", .ids = "LB1 LB3 LB4", .needs = 0,
     .claim = "TOS names each place of the LBR stack in turn, with a branch that was just taken; "
	      "between two brackets nothing moves it",
     .source = "SDM Vol 3, 17.4.8 and 17.4.1")
{
	LBR_STACK(s);
	uint32_t before;

	TRACED(LBR, "jmp 1f\n1:");
	before = lbr_top(s);
	EXPECT(before < s->depth);
	for (unsigned n = 1; n <= 2u * s->depth; n++) {
		wrmsr(s->to + ((before + n) & (s->depth - 1u)), 0);
		TRACED(LBR, "lbr_one: jmp lbr_one_to\n\tud2\nlbr_one_to:");
		EXPECT_EQ(rdmsr(s->top), (before + n) & (s->depth - 1u));
		EXPECT_FROM(s, 0, lbr_one);
		EXPECT_TO(s, 0, lbr_one_to);
	}
}

/* Skylake has an entry where Haswell and Broadwell have MSR_CORE_PERF_LIMIT_REASONS. */
#define MSR_CORE_PERF_LIMIT_REASONS 0x690u
#define FORMAT_OF_HASWELL	    4

#define MSR_LER_FROM_LIP 0x1ddu
#define MSR_LER_TO_LIP	 0x1deu
#define NETBURST_TOS	 0x1dau /* its last exception record has other MSRs */

TEST(lbr_no_further_place, .group = "pmu", .ids = "LB36 LB85", .needs = 0,
     .claim =
	     "the MSRs after those of the last entry, which larger stacks have, and before Skylake "
	     "those of LBR_INFO, raise #GP, read and written, and TOS names none of them; "
	     "MSR_LER_FROM_LIP and MSR_LER_TO_LIP can be read",
     .source = "SDM Vol 3, chapter 35")
{
	const struct lbr_stack *s = lbr_open();
	unsigned model = cpuid_signature(cpuid(1, 0).eax).model;
	bool haswell = (pmu_rig_capabilities() & 0x3f) == FORMAT_OF_HASWELL;
	/* These Xeons have MSRs of the uncore in the place of LBR_INFO. */
	bool uncore = model - 0x2d < 3 || model == 0x3e;
	unsigned most = s->from == 0x40 ? 8 : 32;
	uint64_t value;

	for (unsigned n = s->depth; n < most; n++) {
		EXPECT((haswell && s->from + n == MSR_CORE_PERF_LIMIT_REASONS) ||
		       msr_is_refused(s->from + n));
		EXPECT(msr_is_refused(s->to + n));
	}
	for (unsigned n = 0; s->depth < 32 && !uncore && n < s->depth; n++)
		EXPECT(msr_is_refused(0xdc0 + n));
	wrmsr_safe(s->top, s->depth);
	EXPECT(lbr_top(s) < s->depth);
	EXPECT(s->top == NETBURST_TOS ||
	       (rdmsr_safe(MSR_LER_FROM_LIP, &value) && rdmsr_safe(MSR_LER_TO_LIP, &value)));
	lbr_close();
}

#define MSR_LBR_INFO_0 0xdc0u

static bool has_info(void)
{
	return (pmu_rig_capabilities() & 0x3f) == 5;
}

/* The driver uses no stack whose last registers do not answer; its tests skip then. */
TEST(lbr_entries_hold, .group = "pmu", .ids = "LB38", .needs = 0,
     .claim = "FROM, TO and INFO of each entry hold what is written, and no other's",
     .source = "SDM Vol 3, 17.4.8 and 17.4.8.1")
{
	LBR_STACK(s);
	bool flag = (pmu_rig_capabilities() & 0x3f) - 3 < 2; /* formats 3 and 4 */
	uint64_t from = 0x1000 | (uint64_t)flag << 63;
	uint32_t info = has_info() ? MSR_LBR_INFO_0 : s->to;

	for (unsigned n = 0; n < s->depth; n++) {
		wrmsr(s->from + n, from + n);
		wrmsr(s->to + n, 0x2000 + n);
		wrmsr(info + n, 0x2000 + n);
	}
	for (unsigned n = 0; n < s->depth; n++) {
		EXPECT_EQ(rdmsr(s->from + n), from + n);
		EXPECT_EQ(rdmsr(s->to + n), 0x2000 + n);
		EXPECT_EQ(rdmsr(info + n), 0x2000 + n);
	}
}

/* What the stack holds, and TOS. */
struct held {
	uint64_t from[32], to[32], info[32], top;
};

static struct held held_now(const struct lbr_stack *s)
{
	struct held held = {.top = rdmsr(s->top)};

	for (unsigned n = 0; n < s->depth; n++) {
		held.from[n] = rdmsr(s->from + n);
		held.to[n] = rdmsr(s->to + n);
		held.info[n] = has_info() ? rdmsr(MSR_LBR_INFO_0 + n) : 0;
	}
	return held;
}

/* False also if there is an empty entry. */
static bool is_held(const struct lbr_stack *s, const struct held *held)
{
	struct held now = held_now(s);
	bool same = now.top == held->top;

	for (unsigned n = 0; n < s->depth; n++)
		same &= now.from[n] && now.from[n] == held->from[n] && now.to[n] == held->to[n] &&
			now.info[n] == held->info[n];
	return same;
}

#define BTF 2ull /* of IA32_DEBUGCTL */

static void branch_and_fault(uint64_t debugctl)
{
	TRACED(debugctl, "jmp 1f\n1: movl $3, %%ecx\n2: loop 2b\n"
			 "3: ud2\n4: nop\n" EXCEPTION_TABLE("3b", "4b"));
}

/* LBR is written where it is set. */
static void set_twice(void)
{
	TRACED(LBR, "movl $0x1d9, %%ecx\n\tmovl $1, %%eax\n\txorl %%edx, %%edx\n\twrmsr");
}

TEST(lbr_off, .group = "pmu", .ids = "LB4", .needs = NEED_BTS,
     .claim = "while LBR is clear no branch and no exception enters the stack, beside BTF, TR and "
	      "BTS neither; LBR that is cleared and set again, or set twice, leaves it as it is",
     .source = "SDM Vol 3, 17.4.1")
{
	const struct lbr_stack *s = lbr_stack();
	struct held held;
	struct rig rig;

	rig_open(&rig, 1024);
	if (silicon_is_foreign_guest() && msr_try(IA32_DEBUGCTL, LBR, 0).read_back != LBR) {
		rig_close(&rig);
		test_skip("the hypervisor shows no LBR stack");
	}
	held = held_now(s);
	TRACED(LBR, "movl $41, %%ecx\n1: decl %%ecx\n\tjnz 1b\n\tjmp 2f\n2:");
	EXPECT(!is_held(s, &held));
	held = held_now(s);
	branch_and_fault(0);
	branch_and_fault(BTF);
	branch_and_fault(rig_all());
	EXPECT(is_held(s, &held));
	TRACED(LBR, "nop");
	set_twice();
	EXPECT(is_held(s, &held));
	rig_close(&rig);
}

/* As many forms at a time as the stack has room for; three are the least. */
TEST(lbr_every_encoding, .group = "pmu", .ids = "LB2 LB6", .needs = 0,
     .claim = "each encoding of a near or far branch enters the LBR stack if it is taken, and not "
	      "if it is not",
     .source = "SDM Vol 3, 17.4.8; SDM Vol 2, JMP, CALL, Jcc, LOOP and RET")
{
	static struct code_branches branches;
	const struct lbr_stack *s = lbr_open();
	unsigned form = 0;
	bool right = true;

	code_branches_open(&branches);
	do {
		uint32_t before = lbr_top(s);

		form = code_branches_build(&branches, form, s->depth - 1u);
		code_branches_run(LBR);
		right &= lbr_since(s, before) == branches.count;
		for (size_t n = 0; n < branches.count; n++) {
			const struct code_branch *branch = &branches.branch[n];
			unsigned back = (unsigned)(branches.count - 1 - n);

			right &= (lbr_newest(s, back, false) & ADDRESS) == branch->from &&
				 (lbr_newest(s, back, true) & ADDRESS) == branch->to;
		}
		if (!right)
			test_note("up to form %u", form);
	} while (form && right);
	code_branches_close();
	lbr_close();
	EXPECT(right);
}

/* Both at once: the records and the stack tell of the same branches. */
TEST(lbr_agrees_with_bts, .group = "pmu", .ids = "LB2", .needs = NEED_BTS,
     .claim = "the LBR stack and the records of BTS hold the same branches",
     .source = "SDM Vol 3, 17.4.4 and 17.4.8")
{
	const struct lbr_stack *s = lbr_stack();
	struct rig rig;

	rig_open(&rig, 16);
	if (!rig_lbr()) {
		rig_close(&rig);
		test_skip("TR and LBR cannot be set together on this processor");
	}
	rig_reset(&rig);
	TRACED(rig_all() | LBR, "jmp 1f\n1: movl $4, %%ecx\n2: decl %%ecx\n\tjnz 2b\n\tjmp 3f\n3:");
	REQUIRE_EQ(rig_count(&rig), 5);
	for (unsigned back = 0; back < 5 && back < s->depth; back++) {
		struct bts_struct record = rig_record(&rig, 4 - back);

		EXPECT_FROM(s, back, record.from);
		EXPECT_TO(s, back, record.to);
	}
	rig_close(&rig);
}

extern const char lbr_chain[];

/* 65 jumps, each to the next: twice the deepest stack, and one. */
TEST(lbr_every_entry, .group = "pmu", .ids = "LB2 LB3 LB5", .needs = 0,
     .claim = "each entry of the LBR stack holds the whole addresses of another branch, newest "
	      "first, after more branches than it has entries",
     .source = "SDM Vol 3, 17.4.8 and 17.4.8.1")
{
	LBR_STACK(s);
	uint64_t flags = lbr_from_flags(s);

	TRACED(LBR, "lbr_chain: .rept 65\n\tjmp 1f\n1:\n\t.endr");
	for (unsigned back = 0; back < s->depth; back++) {
		uint64_t from = (uint64_t)lbr_chain + 2 * (64 - back);

		EXPECT_EQ(lbr_newest(s, back, false) | flags, from | flags);
		EXPECT_EQ(lbr_newest(s, back, true), from + 2);
	}
}

extern const char lbr_random[], lbr_random_jump[], lbr_random_return[], lbr_random_call[];
static const char *const random_places[] = {lbr_random, lbr_random_jump, lbr_random_return,
					    lbr_random_call, (const char *)USER_RANDOM_AT};
static unsigned random_marked; /* bit n: some of random_places[n] are */

/* Where the flag is: bit 63 of FROM, or of LBR_INFO in format 5. Nothing here is a transaction. */
static bool is_mispredicted(const struct lbr_stack *s, unsigned back)
{
	uint32_t place = (lbr_top(s) - back) & (s->depth - 1u);
	uint64_t flags = rdmsr((has_info() ? MSR_LBR_INFO_0 : s->from) + place);
	uint64_t from = rdmsr(s->from + place), to = rdmsr(s->to + place);

	EXPECT_EQ((uint64_t)((int64_t)(to << 16) >> 16), to);
	EXPECT_EQ((from ^ (uint64_t)((int64_t)(from << 16) >> 16)) & ~lbr_from_flags(s), 0);
	EXPECT(!has_info() || !(flags >> 61 & 3));
	for (unsigned n = 0; n < 5; n++)
		if (from << 16 == (uint64_t)random_places[n] << 16)
			random_marked |= (unsigned)(flags >> 63) << n;
	return flags >> 63;
}

/* In each round a Jcc goes by one bit, an indirect jump by another, a return by a third. */
static void record_directions(uint64_t directions)
{
	TRACED_WITH(LBR,
		    "movl $64, %%ecx\n"
		    "1: rorq %[bits]\nlbr_random: jc 2f\n\tnop\n"
		    "2: leaq 5f(%%rip), %%rax\n\tbtq $31, %[bits]\n\tsbbq $0, %%rax\n"
		    "lbr_random_jump: jmp *%%rax\n\tnop\n"
		    "5: call 3f\n\tnop\n\tdecl %%ecx\n\tjnz 1b\n\tjmp 4f\n"
		    "3: btq $15, %[bits]\n\tadcq $0, (%%rsp)\nlbr_random_return: ret\n4:",
		    OPERANDS([bits] "+&r"(directions)), );
}

static void record_in_user(uint64_t directions)
{
	wrmsr(MSR_LBR_SELECT, 1);
	user_directions_run(IA32_DEBUGCTL, LBR, directions);
	wrmsr(MSR_LBR_SELECT, 0);
}

/* EN_CALLSTACK with what it needs: SDM Vol 3, 17.9. */
#define CALL_STACK 0x3c6ull
#define NO_JCC	   4ull /* of MSR_LBR_SELECT: no Jcc is among the jumps that move TOS */

/* No call of a call stack returns. Neither of the two targets is the next instruction. */
static void record_calls(uint64_t directions)
{
	wrmsr(MSR_LBR_SELECT, CALL_STACK);
	TRACED_WITH(LBR,
		    "movl $64, %%ecx\n"
		    "1: leaq 5f(%%rip), %%rax\n\trorq %[bits]\n\tsbbq $0, %%rax\n"
		    "lbr_random_call: call *%%rax\n\tnop\n\tnop\n"
		    "5: popq %%rax\n\tdecl %%ecx\n\tjnz 1b",
		    OPERANDS([bits] "+&r"(directions)), );
	wrmsr(MSR_LBR_SELECT, 0);
}

/* Of the newest half. */
static unsigned count_mispredicted(void)
{
	const struct lbr_stack *s = lbr_known();
	unsigned count = 0;

	for (unsigned back = 1; back <= s->depth / 2u; back++)
		count += is_mispredicted(s, back);
	return count;
}

TEST(lbr_mispredicted, .group = "pmu", .ids = "LB5 LB23 PM26", .needs = ON_EACH_CPU,
     .claim =
	     "of branches of random directions or targets some are marked mispredicted, in ring 3 "
	     "and in a call stack too, and of any branches no more than a counter counts as mispredicted",
     .source = "SDM Vol 3, 17.4.8.1 and table 18-1")
{
	unsigned format = pmu_rig_capabilities() & 0x3f;
	const struct lbr_stack *s = lbr_stack();

	if (format < 3 || format > 5)
		test_skip("format %u of last branch records has no flag", format);
	COUNTERS(counters, NO_MISPREDICTED);
	user_directions_open();
	lbr_open();
	for (unsigned user = 0; user <= s->select; user++) {
		random_marked = 0;
		pmu_rig_expect_mispredicted(counters, user ? record_in_user : record_directions,
					    count_mispredicted);
		EXPECT_EQ(random_marked, user ? 1 << 4 : 7);
	}
	if (lbr_caps()->select & LBR_SELECT_CALL_STACK) {
		random_marked = 0;
		pmu_rig_expect_mispredicted(counters, record_calls, count_mispredicted);
		EXPECT_EQ(random_marked, 1 << 3);
	}
	lbr_close();
	user_visits_close();
}

static void mark_info(const struct lbr_stack *s, uint64_t mispredicted)
{
	for (unsigned n = 0; has_info() && n < s->depth; n++)
		wrmsr(MSR_LBR_INFO_0 + n, mispredicted << 63);
}

/* More branches than the deepest stack has entries. */
#define FILL "movl $33, %%ecx\n1: decl %%ecx\n\tjnz 1b"

static void read_debugctl(void *value)
{
	*(uint64_t *)value = rdmsr(IA32_DEBUGCTL);
}

TEST(lbr_each_cpu, .group = "pmu", .ids = "LB30", .needs = NEED_SMP,
     .claim = "the LBR stack and its TOS are each processor's own, and so are LBR and LBR_Frz",
     .source = "SDM Vol 3, chapter 35")
{
	bool freezes = pmu_caps()->version >= 4;
	unsigned last = cpu_count() - 1;
	const struct lbr_stack *s;
	struct held here, there;
	uint64_t debugctl;

	test_go_to(0);
	s = lbr_open();
	TRACED(LBR, FILL);
	mark_info(s, 0);
	here = held_now(s);
	lbr_close();
	test_go_to(last);
	s = lbr_open();
	TRACED(LBR, FILL "\n\tjmp 2f\n2: jmp 3f\n3:");
	if (lbr_top(s) == here.top)
		TRACED(LBR, "jmp 1f\n1:");
	mark_info(s, 1);
	there = held_now(s);
	if (freezes)
		wrmsr(IA32_PERF_GLOBAL_STATUS_SET, STATUS_LBR_FRZ);
	lbr_close();
	test_go_to(0);
	s = lbr_open();
	EXPECT(is_held(s, &here));
	TRACED(LBR, "jmp 1f\n1:");
	EXPECT_EQ(lbr_since(s, (uint32_t)here.top), 1);
	wrmsr(IA32_DEBUGCTL, LBR);
	smp_call(last, read_debugctl, &debugctl);
	EXPECT_EQ(debugctl & LBR, 0);
	EXPECT_EQ(rdmsr(IA32_DEBUGCTL), LBR);
	wrmsr(IA32_DEBUGCTL, 0);
	lbr_close();
	test_go_to(last);
	s = lbr_open();
	EXPECT(is_held(s, &there));
	if (freezes)
		pmu_rig_clear(STATUS_LBR_FRZ);
	lbr_close();
}

/* Five jumps; what they move TOS by. */
static unsigned jump(const struct lbr_stack *s, uint64_t debugctl)
{
	uint32_t before = lbr_top(s);

	TRACED(debugctl, ".rept 5\n\tjmp 1f\n1:\n\t.endr");
	return lbr_since(s, before);
}

static unsigned all_five(const struct lbr_stack *s)
{
	return 5u & (s->depth - 1u);
}

static bool silent;    /* overflows do not interrupt */
static bool of_cycles; /* the next cycle overflows */

static void overflow(unsigned n)
{
	pmu_rig_interrupt.count = 0;
	pmu_rig_load(n, of_cycles ? 1 : 20);
	pmu_rig_control(n, of_cycles ? pmu_rig_counting_cycles(n, PMU_OS, true)
				     : pmu_rig_counting(n, PMU_OS, !silent));
	if (of_cycles || silent) /* branches too */
		pmu_rig_run_interrupted(1ull << n);
	else
		pmu_rig_run(1ull << n);
	pmu_rig_await_interrupt();
}

/* Five jumps in line move TOS, whatever IA32_DEBUGCTL is. */
static bool moves(const struct lbr_stack *s)
{
	uint64_t flags = interrupts_save(), before = rdmsr(s->top), after;

	__asm__ volatile(".rept 5\n\tjmp 1f\n1:\n\t.endr");
	after = rdmsr(s->top);
	interrupts_restore(flags);
	return after != before;
}

/* Counter `n` overflows and interrupts while IA32_DEBUGCTL = LBR | `freeze`; what is left in it. */
static uint64_t overflow_beside_branches(unsigned n, uint64_t freeze)
{
	bool freezes = freeze & FREEZE_LBRS && !silent;
	uint64_t debugctl;

	wrmsr(IA32_DEBUGCTL, LBR | freeze);
	overflow(n);
	debugctl = rdmsr(IA32_DEBUGCTL);
	EXPECT(moves(lbr_known()) != freezes);
	wrmsr(IA32_DEBUGCTL, 0);
	pmu_rig_control(n, 0);
	EXPECT_EQ(pmu_rig_interrupt.count, !silent);
	return debugctl;
}

/* With that in IA32_DEBUGCTL beside LBR; what it is in the handler, and after. */
static void expect_debugctl(unsigned n, uint64_t freeze, uint64_t debugctl)
{
	EXPECT_EQ(overflow_beside_branches(n, freeze), debugctl);
	EXPECT_EQ(pmu_rig_interrupt.debugctl, debugctl);
	EXPECT_EQ(!!(pmu_rig_interrupt.status & STATUS_LBR_FRZ),
		  pmu_caps()->version >= 4 && freeze & FREEZE_LBRS);
}

/* KVM lets a guest have FREEZE_LBRS_ON_PMI alone. */
static bool may_freeze_counters(void)
{
	return !silicon_is_foreign_guest() || !msr_try(IA32_DEBUGCTL, FREEZE_PERFMON, 0).refused;
}

/* Both bits: the counters and the stack stop, where that was stopped before too. */
static void expect_both_freeze(unsigned n, bool streamlined)
{
	const uint64_t both = FREEZE_LBRS | FREEZE_PERFMON,
		       frozen = STATUS_LBR_FRZ | STATUS_CTR_FRZ;

	for (unsigned again = 0; again < 1u + streamlined; again++) {
		if (again)
			wrmsr(IA32_PERF_GLOBAL_STATUS_SET, STATUS_LBR_FRZ);
		expect_debugctl(n, both, both | (streamlined ? LBR : 0));
		EXPECT_EQ(pmu_rig_interrupt.status & frozen, streamlined ? frozen : 0);
		EXPECT_EQ(pmu_rig_interrupt.control >> n & 1, streamlined);
		pmu_rig_clear(streamlined ? frozen : 0);
	}
}

/* IA32_DEBUGCTL is written once: LBR_Frz alone stops the stack and lets it go on, each time. */
static void expect_freezes_again(const struct lbr_stack *s, unsigned n)
{
	wrmsr(IA32_DEBUGCTL, LBR | FREEZE_LBRS);
	for (unsigned turn = 0; turn < 2; turn++) {
		overflow(n);
		EXPECT(!moves(s));
		pmu_rig_clear(STATUS_LBR_FRZ);
		EXPECT(moves(s));
	}
	wrmsr(IA32_DEBUGCTL, 0);
	pmu_rig_control(n, 0);
}

static void expect_stack_freezes(const struct lbr_stack *s, unsigned n)
{
	bool streamlined = pmu_caps()->version >= 4;
	uint64_t frozen = streamlined ? STATUS_LBR_FRZ : 0, top = rdmsr(s->top);

	silent = true;
	overflow(n); /* LBR is clear */
	EXPECT_EQ(rdmsr(s->top), top);
	EXPECT_EQ(overflow_beside_branches(n, FREEZE_LBRS), LBR | FREEZE_LBRS);
	EXPECT_EQ(pmu_rig_status() & STATUS_LBR_FRZ, 0);
	silent = false;
	for (unsigned place = 0; place < s->depth; place++)
		wrmsr(s->from + place, 0);
	expect_debugctl(n, FREEZE_LBRS, FREEZE_LBRS | (streamlined ? LBR : 0));
	/* TOS names a branch that was taken; the counters go on. */
	EXPECT(lbr_newest(s, 0, false) && pmu_rig_interrupt.control >> n & 1);
	EXPECT_EQ(pmu_rig_interrupt.status & (STATUS_LBR_FRZ | STATUS_CTR_FRZ), frozen);
	EXPECT_EQ(jump(s, LBR), streamlined ? 0 : all_five(s));
	pmu_rig_clear(frozen);
	EXPECT_EQ(jump(s, LBR), all_five(s));
	if (streamlined)
		expect_freezes_again(s, n);
	expect_debugctl(n, 0, LBR);
	EXPECT_EQ(pmu_rig_status() & STATUS_LBR_FRZ, 0);
	if (!may_freeze_counters())
		return;
	expect_debugctl(n, FREEZE_PERFMON, LBR | FREEZE_PERFMON);
	EXPECT_EQ(pmu_rig_status() & STATUS_LBR_FRZ, 0);
	pmu_rig_clear(streamlined ? STATUS_CTR_FRZ : 0);
	expect_both_freeze(n, streamlined);
	pmu_rig_overflow_in_user(n, LBR | FREEZE_LBRS);
	EXPECT_EQ(pmu_rig_interrupt.debugctl, FREEZE_LBRS | (streamlined ? LBR : 0));
	EXPECT_EQ(pmu_rig_interrupt.status & STATUS_LBR_FRZ, frozen);
	pmu_rig_clear(frozen);
}

TEST(lbr_freezes_on_interrupt, .group = "pmu", .ids = "LB1 LB4 LB24 LB25 LB26 PM37 PM38 PM39",
     .needs = ON_EACH_CPU,
     .claim = "FREEZE_LBRS_ON_PMI stops the LBR stack when a counter interrupts, beside "
	      "FREEZE_PERFMON_ON_PMI too: LBR is cleared, from version 4 on LBR_Frz is set; "
	      "without the bit, or an interrupt, it goes on",
     .source = "SDM Vol 3, 17.4.7 and 18.2.4")
{
	const struct lbr_stack *s = lbr_stack();
	uint64_t all;

	pmu_rig_need_freeze(FREEZE_LBRS);
	all = pmu_rig_open(NO_INSTRUCTIONS | NO_CYCLES);
	user_visits_open();
	pmu_rig_take_interrupts(all);
	EACH_COUNTER (n, all)
		if (n <= PMU_FIXED) { /* those of instructions */
			if (s->select)
				wrmsr(MSR_LBR_SELECT, NO_JCC);
			expect_stack_freezes(s, n);
			EXPECT(!s->select || rdmsr(MSR_LBR_SELECT));
		}
	if (s->select)
		wrmsr(MSR_LBR_SELECT, lbr_caps()->select & LBR_SELECT_CALL_STACK ? CALL_STACK : 0);
	of_cycles = true;
	EACH_COUNTER (n, pmu_rig_of_cycles(all)) {
		expect_debugctl(n, FREEZE_LBRS, FREEZE_LBRS | (pmu_caps()->version >= 4 ? LBR : 0));
		pmu_rig_clear(pmu_caps()->version >= 4 ? STATUS_LBR_FRZ : 0);
	}
	of_cycles = false;
	lbr_unfilter();
	pmu_rig_release_interrupts();
	user_visits_close();
	pmu_rig_close(all);
}

/* Neither the call nor its return, though a counter sees both. */
static void expect_frozen_calls(const struct lbr_stack *s, uint64_t all)
{
	unsigned n = (unsigned)__builtin_ctzll(all);
	uint64_t top = rdmsr(s->top), newest = lbr_newest(s, 0, false);

	wrmsr(MSR_LBR_SELECT, CALL_STACK);
	EXPECT_EQ(rdmsr(MSR_LBR_SELECT), CALL_STACK);
	pmu_rig_control(n, pmu_rig_counting(n, PMU_OS, false));
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1ull << n);
	TRACED(LBR, "call 1f\n\tjmp 2f\n1: ret\n2:");
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	pmu_rig_control(n, 0);
	wrmsr(MSR_LBR_SELECT, 0);
	EXPECT_EQ(rdmsr(s->top), top);
	EXPECT_EQ(lbr_newest(s, 0, false), newest);
}

/* An entry that is not the newest. */
static void expect_written(const struct lbr_stack *s)
{
	uint32_t to = s->to + ((lbr_top(s) + 1) & (s->depth - 1u));

	wrmsr(to, 0x5000);
	EXPECT_EQ(rdmsr(to), 0x5000);
}

TEST(lbr_frozen_by_software, .group = "pmu", .ids = "LB27", .needs = ON_EACH_CPU,
     .claim =
	     "LBR_Frz that software sets stops the LBR stack, a call stack beside a counter too, until "
	     "software clears it; LBR stays, and entries can be written",
     .source = "SDM Vol 3, 17.4.7 and 18.2.4")
{
	const struct lbr_stack *s = lbr_stack();
	uint64_t all, top, newest;

	if (pmu_caps()->version < 4)
		test_skip("version %u: LBR_Frz begins with 4", pmu_caps()->version);
	lbr_open(); /* or the test ends here */
	lbr_close();
	all = pmu_rig_open(NO_INSTRUCTIONS);
	lbr_open();
	wrmsr(IA32_PERF_GLOBAL_STATUS_SET, STATUS_CTR_FRZ);
	EXPECT_EQ(jump(s, LBR), all_five(s));
	pmu_rig_clear(STATUS_CTR_FRZ);
	wrmsr(IA32_DEBUGCTL, LBR);
	wrmsr(IA32_PERF_GLOBAL_STATUS_SET, STATUS_LBR_FRZ);
	EXPECT_EQ(rdmsr(IA32_DEBUGCTL), LBR);
	wrmsr(IA32_DEBUGCTL, 0);
	EXPECT_EQ(jump(s, LBR), 0);
	top = rdmsr(s->top);
	newest = lbr_newest(s, 0, false);
	expect_written(s);
	TRACED(LBR, "lbr_frozen_ud: ud2\nlbr_frozen_out: nop\n" EXCEPTION_TABLE("lbr_frozen_ud",
										"lbr_frozen_out"));
	EXPECT_EQ(rdmsr(s->top), top);
	expect_frozen_calls(s, all);
	EXPECT_EQ(msr_try(IA32_DEBUGCTL, LBR, 0).read_back, LBR);
	pmu_rig_clear(STATUS_LBR_FRZ);
	EXPECT(newest && lbr_newest(s, 0, false) == newest);
	EXPECT_EQ(jump(s, LBR), all_five(s));
	EXPECT_EQ(jump(s, 0), 0);
	lbr_close();
	pmu_rig_close(all);
}

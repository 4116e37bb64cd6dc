// SPDX-License-Identifier: MIT
// What architectural last branch records keep beside addresses: cycles, mispredictions, the record
// of the last event; how XSAVES has all of them.
#include "drivers/apic/lapic.h"
#include "drivers/lbr/lbr.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/sched/task.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pmi.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/pt_rig.h"
#include "tests/lib/rig.h"
#include "tests/lib/user_visits.h"

#include <stdatomic.h>

#define IA32_XSS    0xda0u
#define CR4_OSXSAVE (1ul << 18)
#define LEAF_STATE  0xdu
#define HAS_XSAVES  (1u << 3) /* CPUID.(0DH,1):EAX */
#define LBR_BIT	    (1u << 15)
#define COMPACTED   (1ull << 63)

#define LEVELS	 (LBR_CTL_OS | LBR_CTL_USR)
#define ALL	 (LBR_CTL_LBREN | LEVELS | LBR_CTL_KINDS)
#define CTL_COND (1ull << 16)
#define OTHERS	 (1ull << 22)

/* BR_TYPE: SDM Vol 3 of 2022, 18.1.3. */
enum { MOST = 32, MOST_CYCLES = 0xffff, COND = 0, JMP_DIRECT = 2 };

/* --- Cycles and mispredictions --- */

#define CTL_JMP_DIRECT (1ull << 17)

extern const char lbr_after_loop[];

/* At least a cycle each. */
__attribute__((noinline)) static uint64_t information_after_loop(void)
{
	ARCH_LBR_RECORDED(LBR_CTL_LBREN | LBR_CTL_OS | CTL_JMP_DIRECT,
			  "jmp 1f\n1: movl $140000, %%ecx\n2: loop 2b\nlbr_after_loop: jmp 3f\n3:");
	EXPECT_EQ(rdmsr(IA32_LBR_0_FROM_IP), (uint64_t)lbr_after_loop);
	return rdmsr(IA32_LBR_0_INFO);
}

/* Low bits of a large count may be set: it is as large then. Returns whether it is valid. */
static bool expect_most_cycles(uint64_t information)
{
	if (!(information & LBR_INFO_CYC_CNT_VALID))
		return false;
	EXPECT_EQ(information & MOST_CYCLES, MOST_CYCLES);
	return true;
}

static void need_cycles(void)
{
	if (!lbr_caps()->architectural || !lbr_caps()->cycles)
		test_skip("no architectural last branch records with cycles: CPUID.1CH:ECX[1]");
}

TEST(lbr_arch_cycles_saturate, .group = "LB", .ids = "LB75", .needs = NEED_LBR,
     .claim = "CYC_CNT of a branch more than 65535 cycles after the one before it, if it is valid, "
	      "is 65535; where leaf 1CH lists it, it is valid of some",
     .source = "SDM Vol 3 of 2022, 18.1.3")
{
	unsigned valid = 0;

	need_cycles();
	arch_lbr_borrow();
	for (unsigned n = 0; n < 4; n++)
		valid += expect_most_cycles(information_after_loop());
	arch_lbr_give_back();
	EXPECT(valid > 0);
}

extern const char lbr_jumping_handler[];
uint32_t lbr_turns;

static bool has_most_cycles(unsigned n)
{
	return (rdmsr(IA32_LBR_0_INFO + n) & MOST_CYCLES) == MOST_CYCLES;
}

/* Two jumps after a wait, then an exception after one. Entry 3 is the second jump, entry 1 the
   first branch of the handler. */
__attribute__((noinline)) static void jump_and_fault(void)
{
	own_idt_load();
	ARCH_LBR_RECORDED(
		LBR_CTL_LBREN | LBR_CTL_OS | CTL_JMP_DIRECT | OTHERS,
		"jmp 1f\nlbr_jumping_handler: jmp 2f\n2: movq %%rbx, (%%rsp)\n\tiretq\n"
		"1: movl lbr_turns(%%rip), %%ecx\n2: loop 2b\n\tjmp 3f\n3: jmp 4f\n"
		"4: leaq 5f(%%rip), %%rbx\n\tmovl lbr_turns(%%rip), %%ecx\n2: loop 2b\n\tud2\n5:");
	own_idt_unload();
}

/* A host may take the processor away between two branches, but not each time. One that is slow may
   take longer for each exception, without a wait before it too. */
TEST(lbr_arch_cycles_begin_anew, .group = "LB", .ids = "LB82", .needs = NEED_LBR,
     .claim = "CYC_CNT of a branch right after another, or after an exception, if it is valid, is "
	      "below 65535 in one of twenty tries, whatever the one before has",
     .source = "SDM Vol 3 of 2022, 18.1.3")
{
	enum { TRIES = 20 };
	unsigned after_jump = 0, after_exception = 0, at_once = 0;

	need_cycles();
	arch_lbr_borrow();
	own_idt_begin(VECTOR_UD, lbr_jumping_handler, false);
	for (unsigned n = 0; n < TRIES; n++) {
		lbr_turns = 1;
		jump_and_fault();
		at_once += has_most_cycles(1);
		lbr_turns = 140000;
		jump_and_fault();
		after_exception += has_most_cycles(1);
		after_jump += has_most_cycles(3);
	}
	arch_lbr_give_back();
	EXPECT(after_jump < TRIES);
	EXPECT(after_exception < TRIES || 2 * at_once > TRIES);
}

extern const char lbr_arch_random_jump[], lbr_arch_random_call[], lbr_arch_random_return[];
uint64_t lbr_directions;

/* In each round an indirect jump, an indirect call, a return and a Jcc go each by a bit. */
static void record_directions(uint64_t directions)
{
	lbr_directions = directions;
	own_idt_load();
	ARCH_LBR_RECORDED(ALL, "movq lbr_directions(%%rip), %%rbx\n\tmovl $64, %%ecx\n\tjmp 1f\n"
			       "nop\n8: btq $15, %%rbx\n\tadcq $0, (%%rsp)\n"
			       "lbr_arch_random_return: ret\n"
			       "1: leaq 2f(%%rip), %%rax\n\tbtq $31, %%rbx\n\tsbbq $0, %%rax\n"
			       "lbr_arch_random_jump: jmp *%%rax\n\tnop\n"
			       "2: leaq 8b(%%rip), %%rax\n\tbtq $47, %%rbx\n\tsbbq $0, %%rax\n"
			       "lbr_arch_random_call: call *%%rax\n\tnop\n\t"
			       "rorq %%rbx\n\tjc 2f\n\tnop\n2: decl %%ecx\n\tjnz 1b\n\t"
			       "leaq 3f(%%rip), %%rbx\n\tud2\n3:");
	own_idt_unload();
	EXPECT_EQ(rdmsr(IA32_LER_INFO) >> 63, rdmsr(IA32_LBR_0_INFO + 2) >> 63);
}

static void record_in_user(uint64_t directions)
{
	user_directions_run(IA32_LBR_CTL, ALL & ~LBR_CTL_OS, directions);
}

static unsigned random_marked; /* bit n: some of random_places[n] are */

/* Of the newer half, or of eight entries, without an exception and its IRETQ. */
static unsigned count_mispredicted(void)
{
	static const char *const random_places[] = {lbr_arch_random_jump, lbr_arch_random_call,
						    lbr_arch_random_return};
	unsigned count = 0, depth = lbr_caps()->depth;

	for (unsigned n = 2; n < (depth > 8 ? depth / 2 : depth); n++) {
		unsigned flag = (unsigned)(rdmsr(IA32_LBR_0_INFO + n) >> 63);

		for (unsigned i = 0; i < 3; i++)
			if (rdmsr(IA32_LBR_0_FROM_IP + n) == (uint64_t)random_places[i])
				random_marked |= flag << i;
		count += flag;
	}
	return count;
}

TEST(lbr_arch_mispredicted, .group = "LB", .ids = "LB72 LB76", .needs = NEED_LBR | ON_EACH_CPU,
     .claim =
	     "of branches of random directions or targets some have MISPRED, in ring 3 too, and of any "
	     "no more than a counter counts as mispredicted; IA32_LER_INFO has that of its branch",
     .source = "SDM Vol 3 of 2022, 18.1.3")
{
	if (!lbr_caps()->architectural || !(cpuid(LBR_LEAF, 0).ecx & LBR_LEAF_MISPREDICTED))
		test_skip("no architectural last branch records with MISPRED: CPUID.1CH:ECX[0]");
	COUNTERS(counters, NO_MISPREDICTED);
	user_directions_open();
	arch_lbr_borrow();
	own_idt_begin(VECTOR_UD, own_handler_resume, false);
	random_marked = 0;
	pmu_rig_expect_mispredicted(counters, record_directions, count_mispredicted);
	EXPECT_EQ(random_marked, 7);
	pmu_rig_expect_mispredicted(counters, record_in_user, count_mispredicted);
	arch_lbr_give_back();
	user_visits_close();
}

/* --- Entries that are written --- */

/* What INFO has by leaf 1CH: MISPRED, the cycles and whether they are valid, BR_TYPE.
   IA32_LER_INFO has no cycles. */
static uint64_t information_bits(uint32_t msr)
{
	uint32_t ecx = cpuid(LBR_LEAF, 0).ecx;

	return (ecx & LBR_LEAF_MISPREDICTED ? 1ull << 63 : 0) |
	       (lbr_caps()->cycles && msr != IA32_LER_INFO ? LBR_INFO_CYC_CNT_VALID | 0xffff : 0) |
	       (lbr_caps()->kinds ? 0xfull << LBR_INFO_BR_TYPE : 0);
}

/* A switch of tasks writes back what it read. INFO has bits that may read as they like. */
static void expect_held(uint32_t from, uint32_t to, uint32_t information)
{
	static const uint64_t addresses[] = {0x1000, 0x7fffffffffff, ~0ull << 47, ~0ull};
	uint64_t bits = information_bits(information);

	for (unsigned i = 0; i < 4; i++) {
		EXPECT_EQ(msr_try(from, addresses[i], 0).read_back, addresses[i]);
		EXPECT_EQ(msr_try(to, addresses[i], 0).read_back, addresses[i]);
		EXPECT(wrmsr_safe(information, ~0ull << 16 * i));
		EXPECT_EQ(rdmsr(information) & bits, ~0ull << 16 * i & bits);
	}
}

TEST(lbr_arch_entries_hold, .group = "LB", .ids = "LB55 LB72", .needs = NEED_LBR,
     .claim = "FROM and TO of each entry, and of IA32_LER_*, hold a canonical address that is "
	      "written, in either half; INFO takes any value, and holds the fields that leaf 1CH "
	      "lists",
     .source = "SDM Vol 3 of 2022, 18.1.3")
{
	unsigned depth = arch_lbr_borrow();

	wrmsr(IA32_LBR_CTL, LBR_CTL_LBREN); /* no level and no kind is let in */
	for (unsigned n = 0; n < depth; n++)
		expect_held(IA32_LBR_0_FROM_IP + n, IA32_LBR_0_TO_IP + n, IA32_LBR_0_INFO + n);
	expect_held(IA32_LER_FROM_IP, IA32_LER_TO_IP, IA32_LER_INFO);
	arch_lbr_give_back();
}

/* --- The last event --- */

extern const char lbr_last_jcc[], lbr_last_jcc_to[], lbr_last_jmp[], lbr_last_jmp_to[];

/* A Jcc and a JMP before an exception; a JMP after it. */
__attribute__((noinline)) static void raise_exception(uint64_t control)
{
	own_idt_load();
	ARCH_LBR_RECORDED(
		control,
		"xorl %%ecx, %%ecx\nlbr_last_jcc: jz lbr_last_jcc_to\n\tud2\n"
		"lbr_last_jcc_to: leaq 1f(%%rip), %%rbx\nlbr_last_jmp: jmp lbr_last_jmp_to\n"
		"lbr_last_jmp_to: ud2\n1: jmp 2f\n2:");
	own_idt_unload();
}

static void expect_last(const char *from, const char *to, unsigned type)
{
	EXPECT_EQ(rdmsr(IA32_LER_FROM_IP), (uint64_t)from);
	EXPECT_EQ(rdmsr(IA32_LER_TO_IP), (uint64_t)to);
	if (lbr_caps()->kinds)
		EXPECT_EQ(rdmsr(IA32_LER_INFO) >> LBR_INFO_BR_TYPE & 0xf, type);
}

extern const char lbr_before_int[], lbr_before_interrupt[];

static bool is_last(const char *from)
{
	return rdmsr(IA32_LER_FROM_IP) == (uint64_t)from;
}

/* A JMP before INT n, a branch of the kernel's before an NMI, and a JMP before an interrupt, whose
   handler has other branches. */
static void expect_last_of_others(void)
{
	struct pending pending;

	own_idt_load();
	ARCH_LBR_RECORDED(ALL, "leaq 1f(%%rip), %%rbx\n"
			       "lbr_before_int: jmp 2f\n2: int $0x60\n1:");
	own_idt_unload();
	EXPECT(is_last(lbr_before_int));
	pending_raise(&pending);
	wrmsr(IA32_LBR_CTL, ALL);
	lapic_self_nmi();
	pmi_settle(); /* IF = 0: nothing else is the last event */
	wrmsr(IA32_LBR_CTL, 0);
	EXPECT(!is_last(lbr_before_int));
	ARCH_LBR_RECORDED(ALL, "lbr_before_interrupt: jmp 1f\n1: sti\n\tnop\n\tcli");
	pending_settle();
	EXPECT(is_last(lbr_before_interrupt));
}

TEST(lbr_arch_last_event, .group = "LB", .ids = "LB72", .needs = NEED_LBR,
     .claim =
	     "IA32_LER_* have the branch, of those let in, before the last exception, INT n, NMI or "
	     "interrupt; while LBREn is clear they stay, beside a counter too",
     .source = "SDM Vol 3 of 2022, 18.1")
{
	if (!lbr_caps()->architectural)
		test_skip("no architectural last branch records: CPUID.7:EDX[19], leaf 1CH");
	COUNTERS(counters, NO_INSTRUCTIONS);
	arch_lbr_borrow();
	own_idt_begin(VECTOR_UD, own_handler_resume, false);
	own_idt_set(0x60, own_handler_resume, false);
	raise_exception(ALL);
	expect_last(lbr_last_jmp, lbr_last_jmp_to, JMP_DIRECT);
	raise_exception(LBR_CTL_LBREN | LEVELS | CTL_COND);
	expect_last(lbr_last_jcc, lbr_last_jcc_to, COND);
	expect_last_of_others();
	wrmsr(IA32_LER_TO_IP, 0x20000);
	raise_exception(0);
	pmu_rig_begin((unsigned)__builtin_ctzll(counters), EVENT_INSTRUCTIONS);
	raise_exception(0);
	pmu_rig_end((unsigned)__builtin_ctzll(counters));
	EXPECT_EQ(rdmsr(IA32_LER_TO_IP), 0x20000);
	arch_lbr_give_back();
}

/* --- While another processor records --- */

#define CTL_JMP_INDIRECT (1ull << 18)

uint64_t lbr_jumps_there;
static _Atomic bool enough;

static void record_jumps(void *unused)
{
	(void)unused;
	arch_lbr_borrow();
	while (!atomic_load(&enough))
		ARCH_LBR_RECORDED(ALL, "movl $500, %%ebx\n1: jmp 2f\n"
				       "2: incq lbr_jumps_there(%%rip)\n\tdecl %%ebx\n\tjnz 1b");
	arch_lbr_give_back();
}

/* The last processor records jumps all the time, while `check` runs on the first one with the
   registers borrowed. */
static void beside_jumps(void (*check)(void))
{
	struct task *other;

	if (!lbr_caps()->architectural)
		test_skip("no architectural last branch records: CPUID.7:EDX[19], leaf 1CH");
	other = test_task("jumps", record_jumps, NULL);
	atomic_store(&enough, false);
	test_keep_on(other, cpu_count() - 1);
	test_go_to(0);
	task_start(other);
	arch_lbr_borrow();
	check();
	arch_lbr_give_back();
	atomic_store(&enough, true);
	test_task_end(other);
}

/* Until the other processor has recorded since. */
#define AWAIT_JUMP_THERE                                                                           \
	"movq lbr_jumps_there(%%rip), %%rbx\n9: cmpq %%rbx, lbr_jumps_there(%%rip)\n\tjz 9b\n"

extern const char lbr_own_jump[], lbr_own_jump_to[];

/* A jump of the kind that is recorded; those of the other processor; an exception. Entry 0 is of
   that jump, or of one of the kernel's after it. */
static void expect_own_event(void)
{
	own_idt_begin(VECTOR_UD, own_handler_resume, false);
	wrmsr(IA32_LBR_CTL, LBR_CTL_LBREN | LBR_CTL_OS | CTL_JMP_INDIRECT);
	__asm__ volatile("leaq lbr_own_jump_to(%%rip), %%rbx\nlbr_own_jump: jmp *%%rbx\n"
			 "\tnop\nlbr_own_jump_to:" AWAIT_JUMP_THERE
			 :
			 :
			 : "rbx", "cc");
	own_idt_load();
	__asm__ volatile("leaq 1f(%%rip), %%rbx\n\tud2\n1:" : : : "rbx", "r8", "memory", "cc");
	own_idt_unload();
	wrmsr(IA32_LBR_CTL, 0);
	EXPECT(rdmsr(IA32_LBR_0_FROM_IP) != 0);
	EXPECT_EQ(rdmsr(IA32_LER_FROM_IP), rdmsr(IA32_LBR_0_FROM_IP));
	EXPECT_EQ(rdmsr(IA32_LER_TO_IP), rdmsr(IA32_LBR_0_TO_IP));
}

TEST(lbr_arch_last_event_each_cpu, .group = "LB", .ids = "LB81", .needs = NEED_LBR | NEED_SMP,
     .claim = "IA32_LER_* have the last branch of their own processor, though another one records "
	      "branches between that and the exception",
     .source = "SDM Vol 3 of 2022, 18.1")
{
	beside_jumps(expect_own_event);
}

extern const char lbr_after_there[];

/* At least a cycle each; then until the other processor has recorded just before. */
__attribute__((noinline)) static uint64_t information_beside(void)
{
	ARCH_LBR_RECORDED(LBR_CTL_LBREN | LBR_CTL_OS | CTL_JMP_DIRECT,
			  "jmp 1f\n1: movl $70000, %%ecx\n2: loop 2b\n\t" AWAIT_JUMP_THERE
			  "lbr_after_there: jmp 3f\n3:");
	EXPECT_EQ(rdmsr(IA32_LBR_0_FROM_IP), (uint64_t)lbr_after_there);
	return rdmsr(IA32_LBR_0_INFO);
}

static void expect_own_cycles(void)
{
	for (unsigned n = 0; n < 12; n++)
		expect_most_cycles(information_beside());
}

TEST(lbr_arch_cycles_each_cpu, .group = "LB", .ids = "LB82", .needs = NEED_LBR | NEED_SMP,
     .claim = "CYC_CNT has the cycles since the entry before of the same processor, though another "
	      "one records branches meanwhile",
     .source = "SDM Vol 3 of 2022, 18.1.3")
{
	need_cycles();
	beside_jumps(expect_own_cycles);
}

/* --- State component 15 --- */

/* Its words: IA32_LBR_CTL, IA32_LBR_DEPTH, IA32_LER_*, then FROM, TO and INFO of each entry. */
enum { CONTROL, DEPTH, INFO = 4, ENTRIES };
static struct {
	uint8_t legacy[512];
	uint64_t xstate_bv, xcomp_bv, header[6];
	uint64_t word[ENTRIES + 3 * MOST];
} area __attribute__((aligned(64)));

static uint32_t msr_of(unsigned word)
{
	static const uint32_t head[] = {IA32_LBR_CTL, IA32_LBR_DEPTH, IA32_LER_FROM_IP,
					IA32_LER_TO_IP, IA32_LER_INFO};
	static const uint32_t entry[] = {IA32_LBR_0_FROM_IP, IA32_LBR_0_TO_IP, IA32_LBR_0_INFO};

	return word < ENTRIES ? head[word] : entry[(word - ENTRIES) % 3] + (word - ENTRIES) / 3;
}

static uint64_t old_cr4, old_xss;
static unsigned words;

static void need_state(void)
{
	struct cpuid_result leaf = cpuid(LEAF_STATE, 1);

	if (!(leaf.eax & HAS_XSAVES && leaf.ecx & LBR_BIT))
		test_skip("CPUID.(0DH,1):ECX[15] is 0");
}

static void open_state(void)
{
	need_state();
	words = ENTRIES + 3 * arch_lbr_borrow();
	__asm__ volatile("movq %%cr4, %0" : "=r"(old_cr4));
	__asm__ volatile("movq %0, %%cr4" : : "r"(old_cr4 | CR4_OSXSAVE) : "memory");
	old_xss = rdmsr(IA32_XSS);
	wrmsr(IA32_XSS, LBR_BIT);
}

static void close_state(void)
{
	wrmsr(IA32_XSS, old_xss);
	__asm__ volatile("movq %0, %%cr4" : : "r"(old_cr4) : "memory");
	arch_lbr_give_back();
}

/* XSAVES, of one component that is not in its initial configuration; of none, if IA32_XSS has not
   that one. */
static void save_of(uint64_t xss)
{
	wrmsr(IA32_XSS, xss);
	memset(&area, 0, sizeof(area));
	__asm__ volatile("xsaves64 %0" : "+m"(area) : "a"(LBR_BIT), "d"(0));
	EXPECT_EQ(area.xstate_bv, xss);
	EXPECT_EQ(area.xcomp_bv, COMPACTED | xss);
}

static void save(void)
{
	save_of(0);
	__asm__ volatile("xrstors64 %0" : : "m"(area), "a"(LBR_BIT), "d"(0)); /* of none as well */
	save_of(LBR_BIT);
}

/* XRSTORS: of what was saved, or to the initial configuration. False: #GP. */
static bool restore(uint64_t xstate_bv)
{
	bool done = false;

	area.xstate_bv = xstate_bv;
	area.xcomp_bv = COMPACTED | LBR_BIT;
	__asm__ volatile("1:\txrstors64 %[area]\n\tmovb $1, %[done]\n2:" EXCEPTION_TABLE("1b", "2b")
			 : [done] "+r"(done)
			 : [area] "m"(area), "a"(LBR_BIT), "d"(0)
			 : "memory");
	return done;
}

/* Of a register: INFO has bits that may read as they like. */
static uint64_t bits_of(unsigned word)
{
	return word >= INFO && (word - INFO) % 3 == 0 ? information_bits(msr_of(word)) : ~0ull;
}

/* Each register has its word, or is 0. */
static void expect_words(bool zero)
{
	for (unsigned n = 0; n < words; n++)
		if (n != DEPTH || !zero)
			EXPECT_EQ(rdmsr(msr_of(n)) & bits_of(n),
				  zero ? 0 : area.word[n] & bits_of(n));
}

/* XRSTORS with another value of a word raises #GP. Each register has what it had and the area has,
   or 0, its initial value: SDM Vol 1, 13.12. */
static void expect_refused(unsigned word, uint64_t value)
{
	uint64_t good = area.word[word], now;

	area.word[word] = value;
	EXPECT(!restore(LBR_BIT));
	area.word[word] = good;
	for (unsigned n = 0; n < words; n++) {
		now = rdmsr(msr_of(n)) & bits_of(n);
		EXPECT(!now || now == (area.word[n] & bits_of(n)));
	}
}

__attribute__((noinline)) static void fill(void)
{
	ARCH_LBR_RECORDED(ALL, ".rept 37\n\tjmp 1f\n1:\n\t.endr");
}

/* The least depth that there is. */
static unsigned least_depth(void)
{
	return 8u * (1u + (unsigned)__builtin_ctz(cpuid(LBR_LEAF, 0).eax | 0x80));
}

/* XRSTORS of the area to registers of this depth: it loads that of the area, or raises #GP. */
static void restore_to(unsigned depth)
{
	bool done;

	wrmsr(IA32_LBR_DEPTH, depth);
	done = restore(LBR_BIT);
	EXPECT_EQ(rdmsr(IA32_LBR_DEPTH), done ? area.word[DEPTH] : depth);
	wrmsr(IA32_LBR_DEPTH, area.word[DEPTH]);
	restore(LBR_BIT);
	expect_words(false);
}

/* With this value in one register alone XSAVES has the component. */
static void expect_in_use(unsigned word, uint64_t value)
{
	restore(0);
	if (word == DEPTH || !(value & bits_of(word)))
		return;
	wrmsr(msr_of(word), word == CONTROL ? LBR_CTL_OS : value);
	save();
}

/* XSAVES of this component leaves Intel PT on. */
static void save_beside_pt(void)
{
	bool on;

	if (!pt_caps()->topa)
		return;
	PT_RIG(pt, 1, false);
	wrmsr(IA32_RTIT_CTL, pt_on(PT_PLAIN));
	save_of(LBR_BIT);
	on = rdmsr(IA32_RTIT_CTL) & RTIT_CTL_TRACE_EN;
	EXPECT(on);
}

TEST(lbr_arch_state, .group = "LB", .ids = "LB73 LB74", .needs = NEED_LBR | ON_EACH_CPU,
     .claim = "XSAVES saves all registers of each depth, if one is not 0 and IA32_XSS has the "
	      "component, and XRSTORS loads or clears them if EDX:EAX names it, or refuses another "
	      "depth; reserved bits and a depth that there is not raise #GP",
     .source = "Linux 6.1, fpu/types.h; SDM Vol 1, 13.6, 13.11 and 13.12")
{
	bool has_calls = cpuid(LBR_LEAF, 0).ebx & LBR_LEAF_CALL_STACK;

	open_state();
	for (unsigned depth = 8; depth <= lbr_caps()->depth; depth += 8) {
		if (!wrmsr_safe(IA32_LBR_DEPTH, depth))
			continue;
		words = ENTRIES + 3 * depth;
		fill();
		EXPECT(rdmsr(msr_of(words - 3)));
		wrmsr(IA32_LER_TO_IP, 0x20000);
		wrmsr(msr_of(words - 1), LBR_MISPREDICTED | 1);
		wrmsr(IA32_LBR_CTL, LEVELS | (has_calls ? LBR_CTL_CALL_STACK : 0));
		save();
		__asm__ volatile("xrstors64 %0" : : "m"(area), "a"(0), "d"(0)); /* of none */
		expect_words(false);
		restore(0);
		expect_words(true);
		restore_to(least_depth());
		restore_to(lbr_caps()->depth);
	}
	save_beside_pt();
	for (unsigned bit = 4; bit < 64; bit++)
		if (!(LBR_CTL_KINDS >> bit & 1))
			expect_refused(CONTROL, 1ull << bit | LEVELS);
	expect_refused(DEPTH, 0);
	expect_refused(DEPTH, 7);
	for (unsigned n = 0; n < words; n++) {
		expect_in_use(n, LBR_MISPREDICTED | ~0ull << 47);
		expect_in_use(n, 0x1000);
	}
	close_state();
}

extern const char lbr_restored_jump[];

/* XRSTORS of the area, a jump, IA32_LBR_CTL = 0; whether the jump is the newest entry. */
__attribute__((noinline)) static bool records_restored(uint64_t xstate_bv)
{
	uint32_t low = LBR_BIT, high = 0;

	area.xstate_bv = xstate_bv;
	area.xcomp_bv = COMPACTED | LBR_BIT;
	__asm__ volatile("pushfq\n\tcli\n\txrstors64 %[area]\n"
			 "lbr_restored_jump: jmp 1f\n1: movl $0x14ce, %%ecx\n\t"
			 "xorl %%eax, %%eax\n\txorl %%edx, %%edx\n\twrmsr\n\tpopfq"
			 : "+a"(low), "+d"(high)
			 : [area] "m"(area)
			 : "rcx", "memory", "cc");
	return rdmsr(IA32_LBR_0_FROM_IP) == (uint64_t)lbr_restored_jump;
}

TEST(lbr_arch_state_runs, .group = "LB", .ids = "LB73 LB84", .needs = NEED_LBR,
     .claim =
	     "XRSTORS that sets LBREn has the next branch recorded; one that clears LBREn does not",
     .source = "SDM Vol 1, 13.12; SDM Vol 3 of 2022, 18.1.2")
{
	open_state();
	wrmsr(IA32_LBR_CTL, ALL);
	save();
	wrmsr(IA32_LBR_CTL, 0);
	EXPECT(records_restored(LBR_BIT));
	wrmsr(IA32_LBR_CTL, ALL);
	EXPECT(!records_restored(0));
	if (lbr_caps()->freezes) {
		wrmsr(IA32_PERF_GLOBAL_STATUS_SET, STATUS_LBR_FRZ);
		records_restored(LBR_BIT);
		EXPECT_EQ(rdmsr(IA32_LBR_0_FROM_IP), area.word[ENTRIES]); /* no jump */
		pmu_rig_clear(STATUS_LBR_FRZ);
	}
	area.word[CONTROL] = ALL & ~LBR_CTL_LBREN;
	wrmsr(IA32_LBR_CTL, ALL);
	EXPECT(!records_restored(LBR_BIT));
	close_state();
}

static void read_words(uint64_t value[], unsigned count)
{
	for (unsigned n = 0; n < count; n++)
		value[n] = rdmsr(msr_of(n));
}

TEST(lbr_arch_state_each_cpu, .group = "LB", .ids = "LB83", .needs = NEED_LBR | NEED_SMP,
     .claim = "XSAVES and XRSTORS on one processor, with another IA32_LBR_DEPTH, leave the "
	      "registers of the other as they were",
     .source = "SDM Vol 1, 13.11 and 13.12; SDM Vol 3 of 2022, 18.1")
{
	static uint64_t before[ENTRIES + 3 * MOST], after[ENTRIES + 3 * MOST];
	unsigned last = cpu_count() - 1, count = ENTRIES + 3 * least_depth();

	need_state();
	test_go_to(last);
	arch_lbr_borrow();
	wrmsr(IA32_LBR_DEPTH, least_depth());
	fill();
	wrmsr(IA32_LER_TO_IP, 0x30000);
	wrmsr(IA32_LBR_CTL, LBR_CTL_USR);
	read_words(before, count);
	msrs_give_back();
	test_go_to(0);
	open_state();
	fill();
	wrmsr(IA32_LER_TO_IP, 0x20000);
	save();
	restore(0);
	restore(LBR_BIT);
	close_state();
	test_go_to(last);
	msrs_borrow();
	read_words(after, count);
	arch_lbr_give_back();
	for (unsigned n = 0; n < count; n++)
		EXPECT_EQ(after[n], before[n]);
}

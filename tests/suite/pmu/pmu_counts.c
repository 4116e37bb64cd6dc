// SPDX-License-Identifier: MIT
// Counts are exact: they are compared with the code and with single steps.
#include "drivers/apic/lapic.h"
#include "drivers/pmu/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/trace/context.h"
#include "kernel/trap/user.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/random_programs/steps.h"
#include "tests/lib/user_visits.h"

/* Architectural events, SDM Vol 3, table 18-1; their bits in CPUID.0AH:EBX. */
enum { INSTRUCTIONS = 0xc0, BRANCHES = 0xc4 };

/* Counter 0 is this test's, and so are fixed counter 0, where there is one, and the CPU. */
static void begin(unsigned unavailable)
{
	pmu_rig_need_version();
	if (pmu_caps()->unavailable & unavailable)
		test_skip("CPUID.0AH:EBX says that the event is not there: %x",
			  pmu_caps()->unavailable);
	pmu_rig_take(0);
	if (pmu_caps()->fixed)
		pmu_rig_take(PMU_FIXED);
}

static void end(void)
{
	if (pmu_caps()->fixed)
		EXPECT_EQ(pmu_rig_release(PMU_FIXED), 0);
	EXPECT_EQ(pmu_rig_release(0), 0);
}

/* EN is clear while software writes to a counter: SDM Vol 3, 18.2.1.1. */
__attribute__((noinline)) static void select(unsigned event, uint64_t flags)
{
	wrmsr(IA32_PERFEVTSEL0, 0);
	wrmsr(IA32_PMC0, 0);
	wrmsr(IA32_PERFEVTSEL0, event | flags | PERFEVTSEL_EN);
}

/* Runs `body` with IA32_PERF_GLOBAL_CTRL = 1: counter 0 alone. It may change RAX, RBX, RCX, RDX,
   RDI. */
#define COUNTED(body)                                                                              \
	({                                                                                         \
		__asm__ volatile(                                                                  \
			"pushfq\n\tcli\n\txorl %%edx, %%edx\n\tmovl $1, %%eax\n\t"                 \
			"movl $0x38f, %%ecx\n\twrmsr\n\t" body "\n\t"                              \
			"movl $0x38f, %%ecx\n\txorl %%eax, %%eax\n\txorl %%edx, %%edx\n\t"         \
			"wrmsr\n\tpopfq"                                                           \
			:                                                                          \
			:                                                                          \
			: "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",      \
			  "r12", "r13", "r14", "r15", "memory", "cc");                             \
		rdmsr(IA32_PMC0);                                                                  \
	})

/* Returns what the bracket counts. Counter 0 has the event, and begins at 0 again. */
__attribute__((noinline)) static uint64_t count_bracket(unsigned event)
{
	uint64_t bracket;

	select(event, PMU_OS);
	bracket = COUNTED("");
	select(event, PMU_OS);
	return bracket;
}

/* Counter 0's count of `body`, less what the bracket adds. */
#define COUNT(event, body)                                                                         \
	({                                                                                         \
		uint64_t bracket = count_bracket(event);                                           \
		COUNTED(body) - bracket;                                                           \
	})

/* Twice LEA, UD2 or INT1, a handler of two instructions; NOPs. Silicon may count an event, and
   INT1, as one. */
static void expect_handler(void)
{
	uint64_t count;

	preemption_disable();
	own_idt_begin(VECTOR_UD, own_handler_resume, false);
	own_idt_set(VECTOR_DB, own_handler_resume, false);
	own_idt_load();
	count = COUNT(INSTRUCTIONS, "leaq 1f(%%rip), %%rbx\n\tud2\n"
				    "1: leaq 2f(%%rip), %%rbx\n\t.byte 0xf1\n"
				    "2: .rept 40\n\tnop\n\t.endr");
	own_idt_unload();
	preemption_enable();
	EXPECT(count - 46 <= 3);
}

TEST(pmu_instructions_exact, .group = "pmu", .ids = "PM24", .needs = 0,
     .claim = "instructions retired are counted one by one, of a handler too, a "
	      "repeated string instruction once",
     .source = "SDM Vol 3, 18.2 and table 18-1: C0H, 00H")
{
	begin(NO_INSTRUCTIONS);
	expect_handler();
	EXPECT_EQ(COUNT(INSTRUCTIONS, ".rept 40\n\tnop\n\t.endr"), 40);
	EXPECT_EQ(COUNT(INSTRUCTIONS, "movl $500, %%ecx\n1:\tdecl %%ecx\n\tjnz 1b"), 1001);
	EXPECT_EQ(COUNT(INSTRUCTIONS, "call 1f\n\tjmp 2f\n1:\tret\n2:"), 3);
	EXPECT_EQ(COUNT(INSTRUCTIONS, "subq $256, %%rsp\n\tleaq (%%rsp), %%rdi\n\t"
				      "movl $200, %%ecx\n\trep stosb\n\taddq $256, %%rsp"),
		  5);
	EXPECT_EQ(COUNT(INSTRUCTIONS, "cpuid\n\txorl %%ecx, %%ecx\n\trdpmc\n\tsti\n\tcli"), 5);
	end();
}

TEST(pmu_branches_exact, .group = "pmu", .ids = "PM25", .needs = 0,
     .claim = "branch instructions retired are counted one by one: taken or not, near or far",
     .source = "SDM Vol 3, 18.2 and table 18-1: C4H, 00H")
{
	begin(NO_BRANCHES);
	EXPECT_EQ(COUNT(BRANCHES, ".rept 40\n\tnop\n\t.endr"), 0);
	EXPECT_EQ(COUNT(BRANCHES, "movl $500, %%ecx\n1:\tdecl %%ecx\n\tjnz 1b"), 500);
	EXPECT_EQ(COUNT(BRANCHES, "xorl %%ecx, %%ecx\n\tjnz 1f\n1:\tjrcxz 2f\n2:\tjc 2b"), 3);
	EXPECT_EQ(COUNT(BRANCHES, "movl $10, %%ecx\n1:\tloop 1b"), 10);
	EXPECT_EQ(COUNT(BRANCHES, "call 1f\n\tjmp 2f\n1:\tret\n2:"), 3);
	EXPECT_EQ(COUNT(BRANCHES, "leaq 1f(%%rip), %%rax\n\tjmp *%%rax\n1:\t"
				  "leaq 2f(%%rip), %%rax\n\tmovq %%cs, %%rcx\n\t"
				  "pushq %%rcx\n\tpushq %%rax\n\tlretq\n2:"),
		  2);
	end();
}

/* A branch that goes the way of a random bit, if one of `directions` is set: no predictor knows it
   always. How often one does is not in the manual. */
static uint64_t count_mispredicted(unsigned n, uint32_t directions)
{
	uint64_t flags = interrupts_save();
	uint32_t turns = 1000, random;
	uint64_t counted;

	pmu_rig_begin(n, EVENT_MISPREDICTED);
	__asm__ volatile("1:\tmovl %0, %2\n\tshll $13, %2\n\txorl %2, %0\n\t"
			 "movl %0, %2\n\tshrl $17, %2\n\txorl %2, %0\n\t"
			 "movl %0, %2\n\tshll $5, %2\n\txorl %2, %0\n\t"
			 "testl $1, %0\n\tjz 2f\n\tnop\n2:\tdecl %1\n\tjnz 1b"
			 : "+r"(directions), "+r"(turns), "=&r"(random)
			 :
			 : "cc");
	counted = pmu_rig_end(n);
	interrupts_restore(flags);
	return counted;
}

TEST(pmu_mispredicted_bounded, .group = "pmu", .ids = "PM26 PM33", .needs = 0,
     .claim = "each general counter counts some branches of random directions as mispredicted, and "
	      "no more than are executed; of branches of one direction most not",
     .source = "SDM Vol 3, 18.2 and table 18-1: C5H, 00H")
{
	enum { OF_THE_BRACKET = 20 };
	COUNTERS(all, NO_MISPREDICTED);

	EACH_COUNTER (n, all & ((1ull << PMU_FIXED) - 1)) {
		uint64_t random = count_mispredicted(n, (uint32_t)test_random() | 1);
		uint64_t steady = count_mispredicted(n, 0);

		test_observe("mispredicted", "%lu of 1000 random, %lu of 1000 steady", random,
			     steady);
		EXPECT(random > 0 && random <= 2000 + OF_THE_BRACKET);
		EXPECT(steady < 500);
	}
}

/* Fixed counter 0 and counter 0 count so many turns of a loop. */
static void count_both(unsigned turns, uint64_t *fixed, uint64_t *general)
{
	select(INSTRUCTIONS, PMU_OS);
	wrmsr(IA32_FIXED_CTR0, 0);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1 | 1ull << PMU_FIXED);
	for (volatile unsigned i = 0; i < turns; i++)
		;
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	*fixed = rdmsr(IA32_FIXED_CTR0);
	*general = rdmsr(IA32_PMC0);
}

/* Of the WRMSRs that start and stop them each may count one or none: the loops' difference has
   neither. */
TEST(pmu_fixed_as_general, .group = "pmu", .ids = "PM24", .needs = 0,
     .claim = "fixed counter 0 counts what a general one counts as instructions retired",
     .source = "SDM Vol 3, 18.2.2 and table 18-1")
{
	uint64_t flags, fixed[2], general[2];

	if (!pmu_caps()->fixed)
		test_skip("no fixed counters");
	begin(NO_INSTRUCTIONS);
	flags = interrupts_save();
	wrmsr(IA32_FIXED_CTR_CTRL, FIXED_OS);
	count_both(100, &fixed[0], &general[0]);
	count_both(300, &fixed[1], &general[1]);
	interrupts_restore(flags);
	EXPECT(general[0] > 200);
	EXPECT(general[1] > general[0] + 400);
	EXPECT_EQ(fixed[1] - fixed[0], general[1] - general[0]);
	end();
}

#define HIGHEST_PRIORITY 0xf0 /* of tasks: all fixed interrupts wait */

struct by_privilege {
	uint64_t kernel, user, both;
};

/* Instructions of ring 3 in a visit: MOV, DEC and JNZ 20 times, SYSCALL. */
#define VISIT_INSTRUCTIONS (2 + 2 * (VISIT_BRANCHES + 1))

static uint64_t visit_at = VISITS_AT, visit_cs; /* 0: of 64-bit code */

static uint64_t count_visits(unsigned event, uint64_t levels)
{
	lapic_set_task_priority(HIGHEST_PRIORITY);
	select(event, levels);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
	for (unsigned visit = 0; visit < VISITS; visit++) {
		struct trap_frame frame = {.rip = visit_at, .cs = visit_cs};

		user_run(&frame);
	}
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	lapic_set_task_priority(0);
	return rdmsr(IA32_PMC0);
}

static struct by_privilege count_by_privilege(unsigned event)
{
	return (struct by_privilege){.kernel = count_visits(event, PMU_OS),
				     .user = count_visits(event, PMU_USR),
				     .both = count_visits(event, PMU_OS | PMU_USR)};
}

/* In compatibility mode: MOV ECX, 20; DEC ECX; JNZ to the DEC; UD2. An exception may count. */
#define VISIT_32_AT 0x5a001000ul
static const uint8_t visit_32[] = {0xb9, 20, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0x0f, 0x0b};
enum { INSTRUCTIONS_32 = 1 + 2 * 20 };

static void expect_visits_32(void)
{
	uint8_t *page = test_area(1);

	memcpy(page, visit_32, sizeof(visit_32));
	code_map(VISIT_32_AT, page, VM_USER);
	visit_at = VISIT_32_AT;
	visit_cs = USER_CODE_32;
	EXPECT(count_visits(INSTRUCTIONS, PMU_USR) - VISITS * INSTRUCTIONS_32 <= VISITS);
	visit_at = VISITS_AT;
	visit_cs = 0;
	code_unmap(VISIT_32_AT);
}

/* SYSCALL counts at the level where it began or at that where it ends; IRETQ likewise: one of the
   two counts in ring 3 either way. */
TEST(pmu_privilege_exact, .group = "pmu", .ids = "PM25 PM29", .needs = 0,
     .claim = "a counter with USR counts ring 3 and nothing else, SYSCALL among its branches, and "
	      "32-bit code, with OS the rest, with both every ring",
     .source = "SDM Vol 3, 18.2.1.1: USR and OS of IA32_PERFEVTSELx")
{
	struct by_privilege instructions, branches;

	begin(NO_INSTRUCTIONS | NO_BRANCHES);
	user_visits_open();
	preemption_disable();
	count_by_privilege(INSTRUCTIONS); /* pages that are touched for the first time */
	instructions = count_by_privilege(INSTRUCTIONS);
	branches = count_by_privilege(BRANCHES);
	expect_visits_32();
	preemption_enable();
	user_visits_close();
	EXPECT_EQ(instructions.user, VISITS * VISIT_INSTRUCTIONS);
	EXPECT_EQ(instructions.kernel + instructions.user, instructions.both);
	EXPECT_EQ(branches.user, VISITS * (VISIT_BRANCHES + 2));
	EXPECT_EQ(branches.kernel + branches.user, branches.both);
	EXPECT(branches.kernel > 0);
	end();
}

/*
 * RDPMC of counter 1, MOV of 10 to ECX or CX, LOOP to itself, a far JMP to the next instruction,
 * which is 64-bit code: JMP to what is in memory. There what RDPMC read is kept. A processor need
 * not keep the upper halves of registers in such code, RSP's either: SDM Vol 1, 3.4.1.1.
 */
#define NARROW_AT      0x9000u
#define NARROW_BACK_AT 0x100u /* in that page */
static const uint8_t narrow_32[] = {0x31, 0xc9, 0x41, 0x0f, 0x33, 0xb9, 0x0a, 0x00, 0x00,
				    0x00, 0xe2, 0xfe, 0xea, 0x13, 0x90, 0x00, 0x00, 0x08,
				    0x00, 0xff, 0x24, 0x25, 0x00, 0x91, 0x00, 0x00};
static const uint8_t narrow_16[] = {0x31, 0xc9, 0x41, 0x0f, 0x33, 0xb9, 0x0a, 0x00,
				    0xe2, 0xfe, 0xea, 0x0f, 0x90, 0x08, 0x00, 0xff,
				    0x24, 0x25, 0x00, 0x91, 0x00, 0x00};
enum { NARROW_INSTRUCTIONS = 3 + 1 + 10 + 2, NARROW_BRANCHES = 10 + 2 };
uint64_t pmu_narrow_selector, pmu_narrow_value, pmu_narrow_kept[2];
extern const char pmu_narrow_back[];

/* Two MOV, two PUSH and a far RET lead there; four MOV after. */
#define NARROW                                                                                     \
	"movq %%rsp, pmu_narrow_kept(%%rip)\n\tmovq %%rbp, pmu_narrow_kept+8(%%rip)\n\t"           \
	"pushq pmu_narrow_selector(%%rip)\n\tpushq $0x9000\n\tlretq\n"                             \
	"pmu_narrow_back: movq pmu_narrow_kept(%%rip), %%rsp\n\t"                                  \
	"movq pmu_narrow_kept+8(%%rip), %%rbp\n\t"                                                 \
	"movl %%eax, pmu_narrow_value(%%rip)\n\tmovl %%edx, pmu_narrow_value+4(%%rip)"

static __attribute__((noinline)) uint64_t run_narrow(void)
{
	return COUNTED(NARROW);
}

static uint64_t count_narrow(unsigned event)
{
	uint64_t bracket = count_bracket(event);

	return run_narrow() - bracket;
}

static void expect_narrow(const uint8_t *code, size_t bytes, uint64_t selector)
{
	uint8_t *page = test_area(1);
	uint64_t instructions, count;

	memcpy(page, code, bytes);
	memcpy(page + NARROW_BACK_AT, &(uint64_t){(uint64_t)pmu_narrow_back}, 8);
	code_map(NARROW_AT, page, 0);
	pmu_narrow_selector = selector;
	wrmsr(IA32_PMC0 + 1, (uint64_t)-4711);
	pmu_rig_take_interrupts(1);
	own_gdt_load();
	instructions = count_narrow(INSTRUCTIONS);
	count = count_narrow(BRANCHES);
	pmu_rig_control(0, 0);
	pmu_rig_load(0, NARROW_BRANCHES / 2);
	pmu_rig_control(0, BRANCHES | PMU_OS | PERFEVTSEL_INT | PERFEVTSEL_EN);
	run_narrow();
	own_gdt_unload();
	EXPECT_EQ(pmu_rig_await_interrupt(), 1);
	pmu_rig_release_interrupts();
	code_unmap(NARROW_AT);
	EXPECT_EQ(pmu_narrow_value, rdmsr(IA32_PMC0 + 1));
	EXPECT_EQ(instructions, NARROW_INSTRUCTIONS + 9);
	EXPECT_EQ(count, NARROW_BRANCHES + 1);
}

TEST(pmu_narrow_code_exact, .group = "pmu", .ids = "PM23 PM24 PM25 PM36", .needs = 0,
     .claim =
	     "each instruction and each branch of 32-bit and 16-bit code counts once; RDPMC there is "
	     "whole",
     .source = "SDM Vol 3, table 18-1; SDM Vol 2, RDPMC")
{
	pmu_rig_need_two();

	COUNTERS(all, NO_INSTRUCTIONS | NO_BRANCHES);

	expect_narrow(narrow_32, sizeof(narrow_32), OWN_CODE_32);
	expect_narrow(narrow_16, sizeof(narrow_16), OWN_CODE_16);
}

/* From `left` events before an overflow on, or from 0. */
static uint64_t count_in_ring(unsigned ring, unsigned n, uint64_t control, uint64_t left)
{
	pmu_rig_load(n, left);
	pmu_rig_control(n, control);
	own_ring_run(ring, IA32_PERF_GLOBAL_CTRL, 1ull << n, 0);
	pmu_rig_control(n, 0);
	return pmu_rig_value(n);
}

/* Of cycles alone it is not known how many they are. INT n and IRETQ count at one level or the
   other. */
static void expect_ring(unsigned ring, unsigned n)
{
	uint64_t user = count_in_ring(ring, n, pmu_rig_counting(n, PMU_USR, false), 0), kernel;

	EXPECT(user > 0);
	if (!pmu_rig_is_exact(n))
		return;
	pmu_rig_interrupt.count = 0;
	count_in_ring(ring, n, pmu_rig_counting(n, PMU_USR, true), OWN_RING_JUMPS / 2);
	EXPECT_EQ(pmu_rig_await_interrupt(), 1);
	kernel = count_in_ring(ring, n, pmu_rig_counting(n, PMU_OS, false), 0);
	EXPECT(user >= OWN_RING_JUMPS && user <= OWN_RING_JUMPS + 2);
	EXPECT(kernel > 0 && kernel < OWN_RING_JUMPS);
	if (!pmu_rig_is_fixed(n))
		EXPECT_EQ(count_in_ring(ring, n, EVENT_BRANCHES | PMU_OS | PMU_USR | PERFEVTSEL_EN,
					0),
			  OWN_RING_JUMPS + 2);
}

/* Counter `n` counts cycles with OS, the others those of the ring too. */
static void expect_fewer(unsigned ring, unsigned n, uint64_t counters)
{
	EACH_COUNTER (other, counters) {
		uint64_t levels = other == n ? PMU_OS : PMU_OS | PMU_USR;

		pmu_rig_load(other, 0);
		pmu_rig_control(other, pmu_rig_counting_cycles(other, levels, false));
	}
	own_ring_run(ring, IA32_PERF_GLOBAL_CTRL, counters, 0);
	EACH_COUNTER (other, counters) {
		pmu_rig_control(other, 0);
		EXPECT(other == n || pmu_rig_value(n) < pmu_rig_value(other));
	}
}

TEST(pmu_rings_1_and_2, .group = "pmu", .ids = "PM25 PM29 PM36 PM55", .needs = ON_EACH_CPU,
     .claim = "each counter with USR counts the instructions, or cycles, of rings 1 and 2, with OS "
	      "none of them; with both the IRETQ that leads there is a branch",
     .source = "SDM Vol 3, 18.2.1.1 and 18.2.2")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_CYCLES | NO_BRANCHES);

	pmu_rig_take_interrupts(all);
	own_gdt_load();
	for (unsigned ring = 1; ring <= 2; ring++) {
		EACH_COUNTER (n, all & ~(4ull << PMU_FIXED)) /* its clock may be slow */
			expect_ring(ring, n);
		EACH_COUNTER (n, pmu_rig_of_cycles(all))
			expect_fewer(ring, n, pmu_rig_of_cycles(all));
	}
	own_gdt_unload();
	pmu_rig_release_interrupts();
}

#define CROSSING_TURNS	      20
#define CROSSING_INSTRUCTIONS (2 * CROSSING_TURNS + 5)
#define CROSSING_BRANCHES     (CROSSING_TURNS + 1)

/* MOV ECX, turns; DEC ECX; JNZ to the DEC; SYSCALL. NOP; UD2. NOP; MOV AL, [RAX]. NOP; HLT */
static const uint8_t crossing_code[] = {0xb9, CROSSING_TURNS, 0,    0,	  0,	0xff, 0xc9,
					0x75, 0xfc,	      0x0f, 0x05, 0x90, 0x0f, 0x0b,
					0x90, 0x8a,	      0x00, 0x90, 0xf4};

static unsigned crossing_interrupts;

static void note_interrupt(struct trap_frame *frame)
{
	(void)frame;
	crossing_interrupts++;
	lapic_eoi();
}

/* Goes on in ring 3, after what faulted there. */
static void cross_on(struct trap_frame *frame, unsigned skipped, unsigned vector)
{
	frame->rip += skipped;
	user_run(frame);
	EXPECT_EQ(frame->vector, vector);
}

/* Ring 3 is entered by IRETQ and SYSRET, and left by an interrupt that waits for the entry, by
   SYSCALL and by faults: nothing is there that ring 0 does. */
static void cross(bool interrupted)
{
	struct trap_frame frame = {.rip = VISITS_AT, .rax = VISITS_AT + PAGE_SIZE};

	__asm__ volatile("cli");
	if (interrupted)
		own_raise_interrupt();
	cross_on(&frame, 0, VECTOR_SYSCALL);
	frame.rax = VISITS_AT + PAGE_SIZE;
	cross_on(&frame, 0, VECTOR_UD);
	cross_on(&frame, 2, VECTOR_PF);
	cross_on(&frame, 2, VECTOR_GP);
	EXPECT_EQ(frame.rip, VISITS_AT + sizeof(crossing_code) - 1);
}

/* Counter 0, USR alone; counter 1 with `beside`. The kernel's own interrupts wait: they would be
   crossings too. */
static uint64_t count_crossings(unsigned event, uint64_t beside)
{
	select(event, PMU_USR);
	wrmsr(IA32_PERFEVTSEL0 + 1, beside);
	lapic_set_task_priority(VECTOR_TEST - 1);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 3);
	for (unsigned visit = 0; visit < VISITS; visit++)
		cross(visit % 2);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	lapic_set_task_priority(0);
	wrmsr(IA32_PERFEVTSEL0 + 1, 0);
	return rdmsr(IA32_PMC0);
}

/* Silicon may count an interrupt or fault as one, and IRETQ at the level that it leads to. */
static void expect_crossings(unsigned event, uint64_t most)
{
	const uint64_t entries = VISITS * 5;
	uint64_t kernel = event | PMU_OS | PERFEVTSEL_EN, alone, beside;

	alone = count_crossings(event, 0);
	beside = count_crossings(event, kernel);
	test_observe("crossings", "%x: %lu of %lu", event, alone, VISITS * most);
	EXPECT_EQ(alone, beside);
	EXPECT(alone >= VISITS * most && alone - VISITS * most <= entries);
}

TEST(pmu_crossings_exact, .group = "pmu", .ids = "PM24 PM29", .needs = 0,
     .claim = "USR counts the same where ring 3 is interrupted and faults, whether a counter of "
	      "ring 0 runs beside it or not",
     .source = "SDM Vol 3, 18.2.1.1: USR and OS of IA32_PERFEVTSELx")
{
	uint8_t *page = test_area(1);

	pmu_rig_need_two();
	begin(NO_INSTRUCTIONS | NO_BRANCHES);
	pmu_rig_take(1);
	memcpy(page, crossing_code, sizeof(crossing_code));
	code_map(VISITS_AT, page, VM_USER);
	interrupt_set_handler(VECTOR_TEST, note_interrupt);
	preemption_disable();
	cross(true); /* pages that are touched for the first time */
	crossing_interrupts = 0;
	expect_crossings(INSTRUCTIONS, CROSSING_INSTRUCTIONS);
	expect_crossings(BRANCHES, CROSSING_BRANCHES);
	preemption_enable();
	interrupt_set_handler(VECTOR_TEST, NULL);
	code_unmap(VISITS_AT);
	EXPECT_EQ(crossing_interrupts, 4 * VISITS / 2);
	EXPECT_EQ(pmu_rig_release(1), 0);
	end();
}

/* No branch is in the NOPs, and instructions are: the next counter has another event. */
TEST(pmu_each_counter_event, .group = "pmu", .ids = "PM33", .needs = 0,
     .claim = "each general counter counts its own event, whatever the others count",
     .source = "SDM Vol 3, 18.2.1.1 and table 18-1")
{
	COUNTERS(opened, NO_INSTRUCTIONS | NO_BRANCHES);
	uint64_t all = opened & ((1ull << PMU_FIXED) - 1), same = 0;

	for (unsigned odd = 0; odd < 2; odd++) {
		EACH_COUNTER (n, all) {
			uint64_t event = n % 2 == odd ? EVENT_INSTRUCTIONS : EVENT_BRANCHES;

			wrmsr(IA32_PMC0 + n, 0);
			pmu_rig_control(n, event | PMU_OS | PERFEVTSEL_EN);
		}
		pmu_rig_run(all);
		EACH_COUNTER (n, all) {
			uint64_t value = rdmsr(IA32_PMC0 + n);

			pmu_rig_control(n, 0);
			if (n % 2 != odd)
				EXPECT_EQ(value, 0);
			else if (!same)
				same = value;
			else
				EXPECT_EQ(value, same);
		}
	}
	EXPECT(same >= 200);
}

static struct machine machine;

static void start(struct program *program, uint64_t seed)
{
	program_fill_data(program, seed);
	machine_randomize(&machine, &(uint64_t){seed});
	machine.registers[R15] = (uint64_t)program->data;
}

/* Instructions among the steps: an iteration of a repeated one traps at its own address. */
static uint64_t stepped_instructions(const struct steps *steps)
{
	uint64_t count = 1;

	for (size_t i = 1; i < steps->count; i++)
		count += steps->noted[i] != steps->noted[i - 1];
	return count;
}

struct excess {
	uint64_t instructions, branches;
};

/* By counters 0 and 1; less by single steps. */
static struct excess excess(struct program *program, struct steps *steps, uint64_t seed)
{
	struct machine stepped;
	uint64_t flags;

	program_generate(program, seed, 4000);
	start(program, seed);
	steps_run(steps, program, &machine, 0);
	stepped = machine;
	start(program, seed);
	flags = interrupts_save();
	select(INSTRUCTIONS, PMU_OS);
	wrmsr(IA32_PMC0 + 1, 0);
	wrmsr(IA32_PERFEVTSEL0 + 1, BRANCHES | PMU_OS | PERFEVTSEL_EN);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 3);
	machine_run(&machine, program->code + program->entry, 0);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	interrupts_restore(flags);
	EXPECT(machine_same(&stepped, &machine));
	return (struct excess){
		.instructions = rdmsr(IA32_PMC0) - stepped_instructions(steps),
		.branches = rdmsr(IA32_PMC0 + 1) - steps_branches(steps, program),
	};
}

TEST(pmu_random_programs_exact, .group = "pmu", .ids = "PM24 PM25", .needs = 0,
     .claim = "a random program takes as many instructions, and branches among them, as single "
	      "steps, and ends the same",
     .source = "SDM Vol 3, table 18-1 and 17.3.1.4")
{
	struct program program;
	struct steps steps;
	struct excess first;

	pmu_rig_need_two();
	begin(NO_INSTRUCTIONS | NO_BRANCHES);
	pmu_rig_take(1);
	program_open(&program, 4100);
	steps_open(&steps, 100000);
	preemption_disable();
	machine_open();
	first = excess(&program, &steps, test_random());
	for (uint64_t i = test_scaled(2); i; i--) {
		struct excess next = excess(&program, &steps, test_random());

		EXPECT(steps_branches(&steps, &program) > 100);
		EXPECT_EQ(next.instructions, first.instructions);
		EXPECT_EQ(next.branches, first.branches);
	}
	machine_close();
	preemption_enable();
	EXPECT_EQ(pmu_rig_release(1), 0);
	end();
}

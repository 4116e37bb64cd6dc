// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "drivers/clock/tsc.h"
#include "drivers/pmu/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "kernel/silicon.h"
#include "kernel/trace/context.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/statistics.h"
#include "tests/lib/user_visits.h"
#include "tests/lib/walker.h"

enum { COUNTER = 0, LONG_PERIOD = 0x7fffffff, SHORT_PERIOD = 1000, LOOPS = 4000 };

#define INSTRUCTIONS_RETIRED (0xc0 | PMU_USR | PMU_OS) /* SDM Vol 3, table 18-1 */

static atomic_uint overflows;

static void overflowed(unsigned counter, void *argument)
{
	const struct pmu_owner *const *owner = argument;

	atomic_fetch_add(&overflows, 1);
	pmu_stop(&this_cpu()->trace->pmu, counter, *owner);
}

static const struct pmu_owner watchdog, *const watchdog_itself = &watchdog;
static const struct pmu_owner watchdog = {
	.name = "watchdog", .overflowed = overflowed, .argument = (void *)&watchdog_itself};
static const struct pmu_owner sampler = {.name = "sampler"};

/* The counter is this test's until stop(); the test stays on this CPU. */
static struct pmu_cpu *start(uint64_t period)
{
	struct pmu_cpu *pmu = &this_cpu()->trace->pmu;

	pmu_rig_need_version();
	pmu_rig_need(COUNTER);
	atomic_store(&overflows, 0);
	REQUIRE_EQ(pmu_request(pmu, COUNTER, &watchdog), 0);
	EXPECT_EQ(pmu_start(pmu, COUNTER, &watchdog, INSTRUCTIONS_RETIRED, period), 0);
	return pmu;
}

static void stop(struct pmu_cpu *pmu)
{
	EXPECT_EQ(pmu_release(pmu, COUNTER, &watchdog), 0);
}

static void run_loop(uint64_t left)
{
	__asm__ volatile("1: dec %0; jnz 1b" : "+r"(left) : : "cc", "memory");
}

TEST(pmu_free_counters_rest, .group = "pmu", .ids = "", .needs = 0,
     .claim = "no counter without an owner is enabled in IA32_PERF_GLOBAL_CTRL",
     .source = "SDM Vol 3, 9.1.1: RESET enables general counters")
{
	struct pmu_cpu *pmu = &this_cpu()->trace->pmu;
	unsigned free = 0;

	pmu_rig_need_version();
	test_pin();
	EACH_COUNTER (counter, pmu_rig_here()) {
		if (pmu_owner(pmu, counter))
			continue;
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_CTRL) >> counter & 1, 0);
		free++;
	}
	EXPECT(free);
}

/*
 * KVM gives its guests version 2 with what a newer host has: EDX[15], since it refuses AnyThread
 * (__do_cpuid_func()), and as many architectural events as the host has. This test, which asked for
 * zeros in EDX[31:13], would have failed on each of them: later editions of the manual give bit 15
 * a meaning. No edition says how many events EAX[31:24] has to announce.
 */
#define ANY_THREAD_DEPRECATED (1u << 15)
#define FIRST_EVENTS	      7 /* EBX[6:0] */

TEST(pmu_leaf_reserved, .group = "pmu", .ids = "PM50", .needs = 0,
     .claim = "CPUID.0AH:EBX is 0 after its events and EBX[6:0]; up to version 4 of performance "
	      "monitoring ECX and EDX[31:13] are 0, but in a guest",
     .source = "SDM Vol 2, CPUID: leaf 0AH")
{
	struct cpuid_result leaf;
	unsigned events;

	pmu_rig_need_version();
	leaf = cpuid(0x0a, 0);
	events = leaf.eax >> 24 > FIRST_EVENTS ? leaf.eax >> 24 : FIRST_EVENTS;
	EXPECT(events >= 32 || leaf.ebx >> events == 0);
	if ((leaf.eax & 0xff) > 4)
		test_skip("version %u: ECX has the fixed counters", leaf.eax & 0xff);
	EXPECT_EQ(leaf.ecx, 0);
	if (silicon_is_foreign_guest())
		leaf.edx &= ~ANY_THREAD_DEPRECATED;
	EXPECT_EQ(leaf.edx >> 13, 0);
}

TEST(pmu_enumerated_is_present, .group = "pmu", .ids = "PM22", .needs = 0,
     .claim = "where CPUID.0AH has version 2 or a later one IA32_PERF_GLOBAL_CTRL can be read",
     .source = "SDM Vol 2, CPUID: leaf 0AH; SDM Vol 3, 18.2.2")
{
	struct cpuid_result leaf = {0};
	uint64_t value;

	if (cpuid_is_intel() && cpuid(0, 0).eax >= 0xa)
		leaf = cpuid(0xa, 0);
	if ((leaf.eax & 0xff) < 2)
		test_skip("no architectural performance monitoring of version 2 (CPUID.0AH)");
	EXPECT(rdmsr_safe(IA32_PERF_GLOBAL_CTRL, &value));
}

TEST(pmu_leaf_fixed, .group = "pmu", .ids = "PM54", .needs = 0,
     .claim = "the fixed counters are those that CPUID.0AH:ECX and EDX[4:0] show, and no others",
     .source = "SDM Vol 2, CPUID: leaf 0AH; SDM Vol 3, 18.2.2")
{
	COUNTERS(counters, 0);
	struct cpuid_result leaf = cpuid(0x0a, 0);

	for (unsigned n = 0; n < 32; n++) {
		bool has = leaf.ecx >> n & 1 || (leaf.edx & 0x1f) > n;

		EXPECT_EQ(pmu_rig_rdpmc_refused(1u << 30 | n), !has);
	}
}

TEST(pmu_counter_has_one_owner, .group = "pmu", .ids = "", .needs = 0,
     .claim = "a counter that has an owner is refused to another, who learns the owner's name",
     .source = "docs/design.md#interrupt-at-the-threshold")
{
	struct pmu_cpu *pmu = start(LONG_PERIOD);

	EXPECT_EQ(pmu_request(pmu, COUNTER, &sampler), -EBUSY);
	EXPECT(pmu_owner(pmu, COUNTER) == watchdog.name);
	EXPECT_EQ(pmu_start(pmu, COUNTER, &sampler, INSTRUCTIONS_RETIRED, 1), -EPERM);
	EXPECT_EQ(pmu_release(pmu, COUNTER, &sampler), -EPERM);
	EXPECT(rdmsr(IA32_PERF_GLOBAL_CTRL) & 1);
	stop(pmu);
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_CTRL) & 1, 0);
	EXPECT_EQ(rdmsr(IA32_PERFEVTSEL0), 0);
	EXPECT_EQ(pmu_request(pmu, COUNTER, &sampler), 0);
	EXPECT_EQ(pmu_release(pmu, COUNTER, &sampler), 0);
}

/*
 * A tracer that stops when it is full makes the shape linear: staging interrupts at its threshold,
 * through the same entry. It has one at half its records, so that three turns reach it twice, also
 * where an interrupt is late by as many branches as a buffer allows.
 */
TEST(pmu_counter_beside_tracer, .group = "pmu", .ids = "", .needs = NEED_BTS,
     .claim = "interrupts of a branch trace change nothing of a counter that another owns",
     .source = "SDM Vol 3, 17.4.9.5 and 18.2")
{
	size_t staging = staging_records();
	struct bts_options options = {.view = TRACE_KERNEL,
				      .privileged = true,
				      .size = 3 * staging * sizeof(struct ptrace_bts_record),
				      .overflow = TRACE_STOP};
	struct pmu_cpu *pmu = start(LONG_PERIOD);
	uint64_t select = rdmsr(IA32_PERFEVTSEL0), reached;
	struct tracer *tracer;

	REQUIRE_EQ(bts_attach(current_task(), 0, &options, &tracer), 0);
	reached = staging_reached();
	for (unsigned i = 0; i < 3; i++)
		run_loop(staging / 2);
	EXPECT(staging_reached() - reached >= 2);
	EXPECT(trace_detach(tracer));
	EXPECT_EQ(rdmsr(IA32_PERFEVTSEL0), select);
	EXPECT(rdmsr(IA32_PERF_GLOBAL_CTRL) & 1);
	EXPECT_EQ(atomic_load(&overflows), 0);
	stop(pmu);
}

TEST(pmu_counter_overflow, .group = "pmu", .ids = "PM36", .needs = 0,
     .claim = "a counter that overflows tells its owner, once, and nobody else",
     .source = "SDM Vol 3, 18.2")
{
	struct pmu_cpu *pmu;

	if (pmu_caps()->unavailable & NO_INSTRUCTIONS)
		test_skip("CPUID.0AH:EBX says that instructions are not counted");
	pmu = start(SHORT_PERIOD);
	run_loop(LOOPS);
	EXPECT_EQ(atomic_load(&overflows), 1);
	stop(pmu);
}

enum { SHARES = 11, WHOLE = 1 << 16, SPIN = 100000, LONG_SPIN = 1000000, SHARE_TURNS = 5 };

#define CYCLES (0x3c | PMU_USR | PMU_OS | PERFEVTSEL_EN) /* SDM Vol 3, table 18-1 */
#define EXACT  (EVENT_INSTRUCTIONS | PMU_OS | PERFEVTSEL_EN)

/* What another CPU does: it reads and selects a counter of cycles that goes on, halts beside it,
   counts edges, has an overflow while its LVT entry is masked, unmasks that each time. */
enum meanwhile { READS, HALTS, COUNTS, MASKS, UNMASKS, NOTHING };

static enum meanwhile there = NOTHING;
static atomic_bool enough;
static atomic_ulong turns;

/* Until a reading CPU has done that a few times more. */
static void await_reads(void)
{
	unsigned long reached = atomic_load(&turns);
	uint64_t limit = tsc_read() + 10000000000;

	while (there == READS && atomic_load(&turns) - reached < 8 && tsc_read() < limit)
		run_loop(1000);
}

/* MOV ECX, turns; DEC ECX; JNZ to the DEC; UD2, or SYSCALL. */
static const uint8_t user_loop[] = {0xb9, 0, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0x0f, 0x0b};
static uint8_t *user_page;

static void run_in_user(uint32_t left, bool syscall)
{
	struct trap_frame frame = {.rip = VISITS_AT};

	memcpy(user_page, user_loop, sizeof(user_loop));
	memcpy(user_page + 1, &left, sizeof(left));
	if (syscall)
		user_page[sizeof(user_loop) - 1] = 0x05;
	user_run(&frame);
	EXPECT_EQ(frame.vector, syscall ? VECTOR_SYSCALL : VECTOR_UD);
}

/* Of the counters of a level: those that count, and those that count more than a quarter. */
struct by_level {
	uint64_t some, many;
};

/* The last general counter counts both levels. */
static struct by_level count_levels(uint64_t counters, uint64_t level, uint32_t user,
				    uint32_t kernel, bool syscall)
{
	unsigned last = pmu_caps()->general - 1;
	struct by_level by_level = {0};
	uint64_t flags;

	EACH_COUNTER (n, counters) {
		pmu_rig_load(n, 0);
		pmu_rig_control(n, n == last ? CYCLES : pmu_rig_counting_cycles(n, level, false));
	}
	lapic_set_task_priority(0xf0);
	flags = interrupts_save();
	wrmsr(IA32_PERF_GLOBAL_CTRL, counters);
	run_loop(kernel);
	run_in_user(user, syscall);
	run_loop(kernel);
	if (kernel > 1)
		await_reads();
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	interrupts_restore(flags);
	lapic_set_task_priority(0);
	EACH_COUNTER (n, counters & ~(1ull << last)) {
		uint64_t value = pmu_rig_value(n);

		by_level.some |= (uint64_t)(value > 0) << n;
		by_level.many |= (uint64_t)(4 * value > rdmsr(IA32_PMC0 + last)) << n;
	}
	return by_level;
}

/* More turns each time: a level is slow where its instructions are counted in software, and the way
   there and back is long. */
static bool expect_level(uint64_t counters, uint64_t level, bool in_user, bool syscall)
{
	uint64_t those = counters & ~(1ull << (pmu_caps()->general - 1));
	uint64_t expected = (level == PMU_USR) == in_user ? those : 0;
	struct by_level by_level = count_levels(counters, level, 100, 1, syscall);

	EXPECT_EQ(by_level.some, those);
	for (uint32_t n = SPIN / 50; n <= LONG_SPIN; n *= 4) {
		by_level = count_levels(counters, level, in_user ? n : 1, in_user ? 1 : n, syscall);
		if (by_level.many == expected)
			break;
	}
	return EXPECT_EQ(by_level.many, expected);
}

static uint64_t level_counters;

static void expect_levels(void)
{
	unsigned kinds = there == NOTHING ? 8 : 4;

	preemption_disable();
	for (unsigned kind = 0; kind < kinds; kind++)
		if (!expect_level(level_counters, kind & 1 ? PMU_USR : PMU_OS, kind & 2, kind & 4))
			break;
	preemption_enable();
}

static void open_levels(uint64_t all)
{
	level_counters = pmu_rig_of_cycles(all);
	user_page = test_area(1);
	code_map(VISITS_AT, user_page, VM_USER);
}

static uint64_t of_handler; /* cycles that USR counts in the handler of an NMI */

static void count_in_handler(void)
{
	of_handler = pmu_rig_count(0, pmu_rig_counting_cycles(0, PMU_USR, false), 1);
}

/* Of ring 3, by the fixed counter of instructions. */
static void interrupt_user(void)
{
	user_visits_open();
	pmu_rig_take_interrupts(1ull << PMU_FIXED);
	pmu_rig_interrupt.then = count_in_handler;
	pmu_rig_overflow_in_user(PMU_FIXED, 0);
	pmu_rig_interrupt.then = NULL;
	pmu_rig_release_interrupts();
	user_visits_close();
}

TEST(pmu_cycles_by_level, .group = "pmu", .ids = "PM55", .needs = 0,
     .claim = "a counter of cycles with USR counts those of ring 3, one with OS the others, "
	      "whichever way ring 3 is left",
     .source = "SDM Vol 3, 18.2.1.1 and table 18-1: 3CH")
{
	COUNTERS(all, NO_CYCLES);

	open_levels(all);
	expect_levels();
	code_unmap(VISITS_AT);
	if (all >> PMU_FIXED & 1)
		interrupt_user();
	EXPECT_EQ(of_handler, 0);
}

static const uint64_t selected[] = {[READS] = CYCLES,
				    [HALTS] = CYCLES,
				    [COUNTS] = EXACT | PERFEVTSEL_EDGE,
				    [MASKS] = EXACT | PERFEVTSEL_INT,
				    [UNMASKS] = EXACT | PERFEVTSEL_INT};

static atomic_bool asks; /* the first CPU, for an interrupt */

static void answer(void)
{
	uint64_t flags = interrupts_save();

	if (atomic_exchange(&asks, false))
		lapic_send_ipi(cpu_by_index(0)->apic_id, VECTOR_TEST);
	interrupts_restore(flags);
}

/* Counter 0 of this CPU overflows while the LVT entry is masked. */
static void overflow_masked(void)
{
	lapic_mask_lvtpc();
	wrmsr(IA32_PERFEVTSEL0, 0);
	pmu_rig_load(0, 1);
	wrmsr(IA32_PERFEVTSEL0, EXACT | PERFEVTSEL_INT);
	run_loop(100);
}

static void count_there(void *unused)
{
	(void)unused;
	if (there == MASKS) {
		lapic_mask_lvtpc();
		pmu_rig_load(0, 1);
	}
	wrmsr(IA32_PERFEVTSEL0, selected[there]);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
	while (!atomic_load(&enough)) {
		if (there == HALTS)
			task_sleep(20000);
		else if (there == COUNTS || there == MASKS)
			run_loop(1000);
		else if (there == UNMASKS)
			overflow_masked(), lapic_unmask_lvtpc();
		else if (rdmsr(IA32_PMC0))
			wrmsr(IA32_PERFEVTSEL0, CYCLES);
		answer();
		atomic_fetch_add(&turns, 1);
	}
	if (there == UNMASKS)
		overflow_masked();
	EXPECT(rdmsr(IA32_PERF_GLOBAL_CTRL) & 1);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	if (there != MASKS && there != UNMASKS)
		return;
	EXPECT_EQ(pmu_rig_status() & 1, 1);
	pmu_rig_clear(1);
	lapic_unmask_lvtpc();
}

static void beside(enum meanwhile way, void (*check)(void))
{
	struct task *other = test_task("counts", count_there, NULL);
	unsigned long enough_turns = way == HALTS ? 5 : 50, reached;

	atomic_store(&enough, false);
	atomic_store(&turns, 0);
	there = way;
	test_keep_on(other, cpu_count() - 1);
	task_start(other);
	do {
		reached = atomic_load(&turns);
		check();
	} while (!reached || atomic_load(&turns) < enough_turns);
	atomic_store(&enough, true);
	test_task_end(other);
	there = NOTHING;
}

/* The counters of the last CPU, and of the first, where the test stays. */
struct both_cpus {
	uint64_t there, here;
};

static struct both_cpus open_both(uint32_t unavailable)
{
	struct both_cpus both;

	test_go_to(cpu_count() - 1);
	both.there = pmu_rig_open(unavailable);
	test_go_to(0);
	both.here = pmu_rig_open(unavailable);
	return both;
}

static void close_both(struct both_cpus both)
{
	pmu_rig_close(both.here);
	test_go_to(cpu_count() - 1);
	pmu_rig_close(both.there);
}

/* Cycles that are counted here while the TSC counts WHOLE: the median of short runs, of which a
   busy host interrupts fewer than half. */
static uint64_t share(void)
{
	uint64_t shares[SHARES];

	for (unsigned i = 0; i < SHARES; i++) {
		uint64_t flags = interrupts_save(), began;

		wrmsr(IA32_PERFEVTSEL0, 0);
		wrmsr(IA32_PMC0, 0);
		wrmsr(IA32_PERFEVTSEL0, CYCLES);
		began = tsc_read();
		wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
		run_loop(SPIN);
		await_reads();
		wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
		shares[i] = rdmsr(IA32_PMC0) * WHOLE / (tsc_read() - began);
		interrupts_restore(flags);
	}
	return distribution(shares, SHARES).median;
}

static uint64_t share_alone;
static unsigned shares, whole_shares;

static void add_share(void)
{
	if (!atomic_load(&turns)) /* the other has not begun */
		return;
	shares++;
	whole_shares += share() * 2 >= share_alone;
}

/* The manual fixes no clock: a hot processor has fewer cycles for a while, whatever another counts.
   What another takes away is away in each turn. */
static void expect_share(enum meanwhile way)
{
	bool whole = false;

	for (unsigned turn = 0; turn < SHARE_TURNS && !whole; turn++) {
		share_alone = share();
		EXPECT(share_alone > 0);
		shares = whole_shares = 0;
		beside(way, add_share);
		EXPECT(shares > 0);
		whole = whole_shares * 2 >= shares;
	}
	EXPECT(whole);
}

TEST(pmu_cycles_of_each_cpu, .group = "pmu", .ids = "PM21 PM27 PM28 PM55", .needs = NEED_SMP,
     .claim = "a processor's cycles are counted whole, and by their level, while another counts "
	      "its own, and halts",
     .source = "SDM Vol 3, 18.2.1.1 and chapter 35")
{
	struct both_cpus both = open_both(NO_CYCLES);

	expect_share(READS);
	expect_share(HALTS);
	open_levels(both.here);
	beside(READS, expect_levels);
	code_unmap(VISITS_AT);
	close_both(both);
}

static uint64_t count_nops(void)
{
	wrmsr(IA32_PERFEVTSEL0, 0);
	wrmsr(IA32_PMC0, 0);
	wrmsr(IA32_PERFEVTSEL0, EXACT);
	pmu_rig_run(1);
	return rdmsr(IA32_PMC0);
}

static uint64_t nops_alone;

static void expect_counts(void)
{
	for (unsigned i = 0; i < 20; i++) {
		EXPECT_EQ(count_nops(), nops_alone);
		EXPECT_EQ(pmu_rig_branches(0, PERFEVTSEL_EDGE, 1), 3);
	}
}

/* The handler of an interrupt: a branch at once, and its IRETQ. */
extern const char pmu_jumps[];
__asm__(".pushsection .text\npmu_jumps: jmp 1f\n1:\tnop\n\tnop\n\tiretq\n.popsection");

/* Counter 0, with E, of these branches and one before HLT. The other CPU, which sends the
   interrupt, goes on from the HLT here to the first branch. An interrupt may count as a branch, and
   has that edge then. */
static void expect_edges_after_hlt(void)
{
	own_idt_begin(VECTOR_TEST, pmu_jumps, false);
	lapic_set_task_priority(VECTOR_TEST - 1);
	pmu_rig_load(0, 0);
	wrmsr(IA32_PERFEVTSEL0, EVENT_BRANCHES | PMU_OS | PERFEVTSEL_EN | PERFEVTSEL_EDGE);
	own_idt_load();
	__asm__ volatile("pushfq\n\tcli\n\tmovl $1, %%eax\n\txorl %%edx, %%edx\n\twrmsr\n\t"
			 "jmp 1f\n1:\tnop\n\tmovb $1, %[asks]\n\tsti\n\thlt\n\t"
			 "cli\n\txorl %%eax, %%eax\n\twrmsr\n\tpopfq"
			 : [asks] "+m"(asks)
			 : "c"(IA32_PERF_GLOBAL_CTRL)
			 : "rax", "rdx", "memory", "cc");
	own_idt_unload();
	lapic_eoi();
	lapic_set_task_priority(0);
	EXPECT(rdmsr(IA32_PMC0) >= 3);
}

static void expect_edges(void)
{
	preemption_disable();
	for (unsigned i = 0; i < 10 && atomic_load(&turns); i++)
		expect_edges_after_hlt();
	preemption_enable();
}

TEST(pmu_counts_of_each_cpu, .group = "pmu", .ids = "PM21 PM24 PM44", .needs = NEED_SMP,
     .claim = "a processor counts instructions and edges exactly while another counts its own",
     .source = "SDM Vol 3, 18.2.1.1 and chapter 35")
{
	struct both_cpus both = open_both(NO_INSTRUCTIONS | NO_BRANCHES);

	nops_alone = count_nops();
	EXPECT(nops_alone >= 200);
	beside(READS, expect_counts);
	beside(COUNTS, expect_counts);
	beside(COUNTS, expect_edges);
	close_both(both);
}

static void thaw(void)
{
	pmu_rig_clear(1 | (pmu_caps()->version >= 4 ? STATUS_CTR_FRZ : 0));
}

/* The counters of this CPU are frozen after. */
static void expect_freezes(void)
{
	bool streamlined = pmu_caps()->version >= 4;

	pmu_rig_take_interrupts(1);
	for (unsigned i = 0; i < 30; i++) {
		thaw();
		pmu_rig_interrupt.count = 0;
		pmu_rig_load(0, 20);
		wrmsr(IA32_PERFEVTSEL0, EXACT | PERFEVTSEL_INT);
		wrmsr(IA32_DEBUGCTL, FREEZE_PERFMON);
		pmu_rig_run_interrupted(1);
		wrmsr(IA32_DEBUGCTL, 0);
		EXPECT_EQ(pmu_rig_interrupt.count, 1);
		EXPECT_EQ(pmu_rig_interrupt.control & 1, streamlined);
		EXPECT_EQ(!!(pmu_rig_interrupt.status & STATUS_CTR_FRZ), streamlined);
	}
	pmu_rig_release_interrupts();
}

TEST(pmu_freezes_of_each_cpu, .group = "pmu", .ids = "PM21 PM36 PM37", .needs = NEED_SMP,
     .claim = "FREEZE_PERFMON_ON_PMI freezes the counters of the processor that is interrupted, "
	      "whichever it is, and no other's",
     .source = "SDM Vol 3, 17.4.7 and chapter 35")
{
	struct both_cpus both;

	pmu_rig_need_freeze(FREEZE_PERFMON);
	both = open_both(NO_INSTRUCTIONS | NO_BRANCHES);
	beside(COUNTS, expect_freezes);
	thaw();
	test_go_to(cpu_count() - 1);
	expect_freezes();
	test_go_to(0);
	EXPECT(count_nops() >= 200);
	close_both(both);
	thaw();
}

/* Nor does it get one that waits there. */
static void expect_no_interrupt(void)
{
	unsigned long reached = atomic_load(&turns);

	pmu_rig_take_interrupts(1);
	for (unsigned i = 0; i < 20; i++) {
		lapic_mask_lvtpc();
		lapic_unmask_lvtpc();
	}
	while (reached && atomic_load(&turns) - reached < 4)
		run_loop(1000);
	EXPECT_EQ(pmu_rig_interrupt.count, 0);
	pmu_rig_release_interrupts();
}

static atomic_uint interrupts_here;

/* The other CPU may be interrupted once it unmasks its entry: the entry is masked then. */
static bool take_of_the_other(struct trap_frame *frame)
{
	(void)frame;
	if (!this_cpu()->index)
		atomic_fetch_add(&interrupts_here, 1);
	pmu_rig_clear(1);
	return true;
}

static void expect_none_of_the_other(void)
{
	run_loop(1000);
	pmu_rig_clear(1);
	EXPECT_EQ(atomic_load(&interrupts_here), 0);
}

TEST(pmu_masks_of_each_cpu, .group = "pmu", .ids = "PM21 PM56", .needs = NEED_SMP,
     .claim = "unmasking an LVT entry interrupts no other processor, one whose counter has "
	      "overflowed neither",
     .source = "SDM Vol 3, 10.5.1 and 18.2.2")
{
	struct both_cpus both = open_both(NO_INSTRUCTIONS | NO_BRANCHES);

	beside(MASKS, expect_no_interrupt);
	atomic_store(&interrupts_here, 0);
	test_handle_nmis(take_of_the_other);
	beside(UNMASKS, expect_none_of_the_other);
	expect_none_of_the_other();
	test_handle_nmis(NULL);
	close_both(both);
}

// SPDX-License-Identifier: MIT
// The registers of the counters, overflow, freezing, cycles.
#include "drivers/apic/lapic.h"
#include "drivers/clock/tsc.h"
#include "drivers/pmu/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/silicon.h"
#include "kernel/time.h"
#include "kernel/trace/context.h"
#include "kernel/trap/trap.h"
#include "tests/framework/test.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/rig.h"
#include "tests/lib/user_visits.h"

#define INSTRUCTIONS	(0xc0 | PMU_OS | PERFEVTSEL_EN)
#define FIXED_CYCLES	(PMU_FIXED + 1)
#define FIXED_REFERENCE (PMU_FIXED + 2)

static uint64_t bit(unsigned n)
{
	return 1ull << n;
}

/* The counters that can count reference cycles. */
static uint64_t of_reference(uint64_t counters)
{
	return counters & ((bit(PMU_FIXED) - 1) | bit(FIXED_REFERENCE));
}

static void begin(unsigned counter)
{
	pmu_rig_need_version();
	if (pmu_caps()->unavailable & NO_INSTRUCTIONS)
		test_skip("CPUID.0AH:EBX says that instructions are not counted");
	if (counter >= PMU_FIXED && counter - PMU_FIXED >= pmu_caps()->fixed)
		test_skip("no fixed counter %u", counter - PMU_FIXED);
	pmu_rig_take(counter);
}

static void end(unsigned counter)
{
	EXPECT_EQ(pmu_rig_release(counter), 0);
}

static void count_nops(uint64_t value)
{
	uint64_t flags = interrupts_save();

	wrmsr(IA32_PERFEVTSEL0, 0);
	wrmsr(IA32_PMC0, value);
	wrmsr(IA32_PERFEVTSEL0, INSTRUCTIONS);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
	pmu_rig_nops();
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	interrupts_restore(flags);
}

TEST(pmu_overflow_shows_in_status, .group = "pmu", .ids = "PM31 PM34", .needs = 0,
     .claim = "an overflow sets the counter's status bit, which IA32_PERF_GLOBAL_OVF_CTRL clears",
     .source = "SDM Vol 3, 18.2.2")
{
	pmu_rig_need_two();
	begin(0);
	pmu_rig_clear(1);
	count_nops(0);
	EXPECT_EQ(pmu_rig_status() & 1, 0);
	count_nops((uint64_t)-100);
	EXPECT_EQ(pmu_rig_status() & 1, 1);
	pmu_rig_clear(2);
	pmu_rig_clear(0);
	EXPECT_EQ(pmu_rig_status() & 1, 1);
	pmu_rig_clear(1);
	EXPECT_EQ(pmu_rig_status() & 1, 0);
	end(0);
}

TEST(pmu_counter_keeps_its_width, .group = "pmu", .ids = "PM5 PM7", .needs = 0,
     .claim = "a write of IA32_PMCx sets 32 bits and extends bit 31; IA32_A_PMCx sets all",
     .source = "SDM Vol 3, 18.2.5")
{
	uint64_t mask = (1ull << pmu_caps()->general_width) - 1;

	begin(0);
	wrmsr(IA32_PMC0, 0x1234580000000);
	EXPECT_EQ(rdmsr(IA32_PMC0), 0xffffffff80000000 & mask);
	if (pmu_rig_capabilities() & FULL_WIDTH_WRITES) {
		wrmsr(IA32_A_PMC0, 0x123456789a & mask);
		EXPECT_EQ(rdmsr(IA32_PMC0), 0x123456789a & mask);
		EXPECT(msr_try(IA32_A_PMC0, mask + 1, 0).refused);
	}
	end(0);
}

static void expect_refused(uint64_t control)
{
	struct msr_trial trial = msr_try(IA32_PERF_GLOBAL_CTRL, control, 0);

	EXPECT(trial.refused && !trial.read_back);
}

TEST(pmu_global_bits_are_counters, .group = "pmu", .ids = "PM22", .needs = 0,
     .claim = "IA32_PERF_GLOBAL_CTRL has a bit for each counter of CPUID.0AH and refuses others, "
	      "which changes nothing",
     .source = "SDM Vol 3, 18.2.2")
{
	uint64_t counters;

	begin(0);
	counters = pmu_rig_here();
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
	EXPECT_EQ(msr_try(IA32_PERF_GLOBAL_CTRL, counters, 0).read_back, counters);
	for (unsigned bit = 0; bit < 64; bit++)
		if (!(counters >> bit & 1) && !(bit == 48 && pmu_rig_capabilities() & PERF_METRICS))
			expect_refused(counters | 1ull << bit);
	end(0);
}

TEST(pmu_rdpmc_reads_counters, .group = "pmu", .ids = "PM12 PM23", .needs = 0,
     .claim = "RDPMC reads general and fixed counters, and refuses what is not there",
     .source = "SDM Vol 2, RDPMC")
{
	begin(PMU_FIXED);
	wrmsr(IA32_FIXED_CTR0, 4711);
	EXPECT_EQ(pmu_rig_rdpmc(1u << 30), 4711);
	EXPECT_EQ(pmu_rig_rdpmc(0), rdmsr(IA32_PMC0));
	EXPECT(pmu_rig_rdpmc_refused(pmu_rig_general_here()));
	end(PMU_FIXED);
}

static struct {
	uint64_t control, status;
	uint64_t value, later; /* of counter 0, at two moments */
	unsigned count;
} interrupt;

/* Ours has masked the LVT entry, or else the counter says so. */
static bool overflowed(struct trap_frame *frame)
{
	uint64_t counters = 1 | 1ull << FIXED_CYCLES;

	(void)frame;
	if (!(apic_read(APIC_LVT_PC) & LVT_MASKED) && !(pmu_rig_status() & counters))
		return false;
	interrupt.value = rdmsr(IA32_PMC0);
	interrupt.control = rdmsr(IA32_PERF_GLOBAL_CTRL);
	interrupt.status = pmu_rig_status();
	interrupt.later = rdmsr(IA32_PMC0);
	interrupt.count++;
	wrmsr(IA32_PERFEVTSEL0, 0);
	pmu_take_overflows(counters);
	lapic_unmask_lvtpc();
	return true;
}

static void expect_frozen(uint64_t control)
{
	EXPECT_EQ(interrupt.count, 1);
	if (pmu_caps()->version >= 4) {
		EXPECT_EQ(interrupt.control, control);
		EXPECT(interrupt.status & STATUS_CTR_FRZ);
		pmu_rig_clear(STATUS_CTR_FRZ);
		EXPECT_EQ(pmu_rig_status() & STATUS_CTR_FRZ, 0);
	} else {
		EXPECT_EQ(interrupt.control, 0);
	}
}

static void spin(unsigned rounds)
{
	__asm__ volatile("1: decl %0\n\tjnz 1b" : "+r"(rounds) : : "cc");
}

/* How late the interrupt is after its overflow the manual leaves open. */
static void await_interrupt(uint64_t limit)
{
	uint64_t began = tsc_read();

	while (!*(volatile unsigned *)&interrupt.count && tsc_read() - began < limit)
		spin(1000);
}

static void nothing(struct timer *timer)
{
	(void)timer;
}

static uint64_t spin_time(unsigned rounds)
{
	uint64_t flags = interrupts_save(), began = tsc_read(), best = UINT64_MAX;

	for (unsigned i = 0; i < 5; i++) {
		began = tsc_read();
		spin(rounds);
		if (tsc_read() - began < best)
			best = tsc_read() - began;
	}
	interrupts_restore(flags);
	return best;
}

/* Counting instructions one by one is slow where it is done in software; cycles need no look at
   instructions, and nothing is left of the counting when it is over. */
TEST(pmu_cycles_cost_nothing, .group = "pmu", .ids = "PM27", .needs = 0,
     .claim = "a counter of cycles does not slow the program, nor does one that is stopped",
     .source = "SDM Vol 3, 18.2.2")
{
	enum { ROUNDS = 100000, SLOWER = 8 };
	uint64_t alone, with_cycles, counted, after;

	begin(FIXED_CYCLES);
	alone = spin_time(ROUNDS);
	wrmsr(IA32_FIXED_CTR_CTRL, (FIXED_OS | FIXED_USR) << FIXED_BITS);
	wrmsr(IA32_FIXED_CTR0 + 1, 0);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1ull << FIXED_CYCLES);
	with_cycles = spin_time(ROUNDS);
	counted = rdmsr(IA32_FIXED_CTR0 + 1);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	count_nops(0);
	wrmsr(IA32_PERFEVTSEL0, 0);
	after = spin_time(ROUNDS);
	test_observe("cycles", "%lu alone, %lu while counted, %lu after", alone, with_cycles,
		     after);
	EXPECT(counted > 0);
	EXPECT(with_cycles < alone * SLOWER);
	EXPECT(after < alone * SLOWER);
	end(FIXED_CYCLES);
}

/* The ways to read a counter. */
enum { BY_RDPMC, BY_MSR, BY_ALIAS, WAYS };

static unsigned ways_of(unsigned n)
{
	bool has_alias = !pmu_rig_is_fixed(n) && pmu_rig_capabilities() & FULL_WIDTH_WRITES;

	return has_alias ? WAYS : BY_ALIAS;
}

static uint64_t read_by(unsigned way, unsigned n)
{
	if (way == BY_RDPMC)
		return pmu_rig_rdpmc(pmu_rig_selector(n));
	return rdmsr(way == BY_ALIAS ? IA32_A_PMC0 + n : pmu_rig_msr(n));
}

enum { LONG = 100000, SPINS = 5 };

/* Cycles of spin(), that counter `n` has right after it, read in this way alone. */
static uint64_t expect_read(unsigned n, unsigned way, unsigned rounds)
{
	uint64_t before, spun = 0, late;
	unsigned in_time = 0;

	for (unsigned i = 0; i < SPINS; i++) {
		before = read_by(way, n);
		spin(rounds);
		spun = read_by(way, n);
		late = read_by(way, n) - spun;
		spun -= before;
		in_time += late < spun / 2;
	}
	EXPECT(in_time > SPINS / 2); /* an interrupt may come between the last two */
	return spun;
}

/* Counter `n`, while `counting` are on: read and written after so many rounds of spin(). */
static void expect_cycles_go_on(unsigned n, uint64_t counting, unsigned rounds)
{
	const uint64_t cycles = pmu_rig_counting_cycles(n, PMU_OS | PMU_USR, false);
	uint64_t value, spun = 0;
	unsigned tries = 0;

	pmu_rig_control(n, cycles);
	wrmsr(IA32_PERF_GLOBAL_CTRL, counting);
	for (unsigned way = 0; way < ways_of(n); way++)
		spun = expect_read(n, way, rounds);
	do {
		spin(rounds);
		pmu_rig_control(n, 0); /* before a write: 18.2.1.1 */
		pmu_rig_load(n, 0);
		pmu_rig_control(n, cycles);
		value = pmu_rig_value(n);
	} while (value >= spun && ++tries < 100);
	EXPECT(value < spun);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	pmu_rig_control(n, 0);
}

TEST(pmu_cycles_read_while_counting, .group = "pmu", .ids = "PM23 PM27", .needs = 0,
     .claim =
	     "each counter of cycles that goes on reads what it has counted, by RDPMC, its MSR and "
	     "its alias, and counts from what is written to it",
     .source = "SDM Vol 3, 18.2.1.1, 18.2.5 and table 18-1: 3CH; SDM Vol 2, RDPMC")
{
	COUNTERS(all, NO_CYCLES);

	EACH_COUNTER (n, pmu_rig_of_cycles(all))
		expect_cycles_go_on(n, bit(n), LONG);
	if (all & 2) {
		pmu_rig_control(1, EVENT_INSTRUCTIONS | PMU_OS | PERFEVTSEL_EN);
		expect_cycles_go_on(0, 3, LONG / 10);
	}
}

/* The counters that count more than half of the cycles of a HLT; all, if none counts after it,
   while no register of theirs is written. */
static uint64_t halt(uint64_t counters, bool slow)
{
	struct timer timer = {.expired = nothing};
	uint64_t began, passed, more = 0, counted;

	EACH_COUNTER (n, counters)
		pmu_rig_load(n, 0);
	timer_start(&timer, 20000);
	began = tsc_read();
	wrmsr(IA32_PERF_GLOBAL_CTRL, counters);
	__asm__ volatile("hlt");
	passed = tsc_read() - began;
	EACH_COUNTER (n, counters) {
		counted = pmu_rig_value(n);
		more |= (uint64_t)(counted >= passed / 2) << n;
		spin(100);
		if (!slow && pmu_rig_value(n) == counted)
			more = counters;
	}
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	timer_stop(&timer);
	return more;
}

/* A busy host takes the processor away for longer than a halt lasts. A bus has a slow clock. */
static void expect_rest(uint64_t counters, uint64_t event, uint64_t levels)
{
	uint64_t more = counters;

	EACH_COUNTER (n, counters)
		pmu_rig_control(n, pmu_rig_is_fixed(n) ? pmu_rig_counting(n, levels, false)
						       : event | levels | PERFEVTSEL_EN);
	preemption_disable();
	for (unsigned turn = 0; turn < 100 && more; turn++)
		more &= halt(counters, event == EVENT_REFERENCE);
	preemption_enable();
	EACH_COUNTER (n, counters)
		pmu_rig_control(n, 0);
	EXPECT_EQ(more, 0);
}

TEST(pmu_cycles_stop_in_hlt, .group = "pmu", .ids = "PM27 PM28", .needs = ON_EACH_CPU,
     .claim = "unhalted cycles of each counter are not counted in HLT, of both levels or of one, "
	      "nor are reference cycles; after it they are",
     .source = "SDM Vol 3, 18.2.2 and table 18-1: 3CH")
{
	COUNTERS(all, NO_CYCLES);

	expect_rest(pmu_rig_of_cycles(all), EVENT_CYCLES, PMU_OS | PMU_USR);
	expect_rest(pmu_rig_of_cycles(all), EVENT_CYCLES, PMU_OS);
	if (pmu_caps()->unavailable & NO_REFERENCE)
		all &= bit(FIXED_REFERENCE);
	expect_rest(of_reference(all), EVENT_REFERENCE, PMU_OS | PMU_USR);
}

/* Overflows interrupt this CPU by NMI, and nothing else does. Returns what release_overflows()
 * needs. */
static uint64_t take_overflows(void)
{
	uint64_t flags;

	msrs_borrow();
	flags = interrupts_save();
	test_handle_nmis(overflowed);
	return flags;
}

static void release_overflows(uint64_t flags)
{
	test_handle_nmis(NULL);
	interrupts_restore(flags);
	msrs_give_back();
}

TEST(pmu_freezes_on_interrupt, .group = "pmu", .ids = "PM37", .needs = 0,
     .claim = "FREEZE_PERFMON_ON_PMI stops the counters when one interrupts, as the version says",
     .source = "SDM Vol 3, 17.4.7 and 18.2.4")
{
	uint64_t flags;

	pmu_rig_need_freeze(FREEZE_PERFMON);
	begin(0);
	flags = take_overflows();
	interrupt.count = 0;
	pmu_rig_load(0, 150);
	wrmsr(IA32_PERFEVTSEL0, INSTRUCTIONS | PERFEVTSEL_INT);
	wrmsr(IA32_DEBUGCTL, FREEZE_PERFMON);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
	pmu_rig_nops();
	await_interrupt(1000000000);
	wrmsr(IA32_DEBUGCTL, 0);
	expect_frozen(1);
	EXPECT_EQ(interrupt.later, interrupt.value);
	release_overflows(flags);
	end(0);
}

static void start_cycles(uint64_t cycles, uint64_t others)
{
	interrupt.count = 0;
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	wrmsr(IA32_FIXED_CTR0 + 1, -cycles & ((1ull << pmu_caps()->fixed_width) - 1));
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1ull << FIXED_CYCLES | others);
}

/* With IF = 0 nothing but the counter's own NMI ends the loop. `others` count meanwhile. */
static uint64_t wait_for_overflow(uint64_t cycles, uint64_t others)
{
	uint64_t began = tsc_read();

	start_cycles(cycles, others);
	await_interrupt(cycles * 100 + 10000000000);
	EXPECT_EQ(interrupt.count, 1); /* before a register is written, which counts up to then */
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	pmu_rig_clear(1ull << FIXED_CYCLES);
	return tsc_read() - began;
}

/* Counter 0 counts the same cycles from 0 on: those of the TSC are slower or faster ones. */
TEST(pmu_cycles_interrupt, .group = "pmu", .ids = "PM36", .needs = 0,
     .claim =
	     "a counter of cycles interrupts at its overflow, interrupts off or not, and not early",
     .source = "SDM Vol 3, 18.2.2 and table 18-1: 3CH")
{
	enum { TOGETHER = 1000 }; /* counters need not start in the same cycle */
	uint64_t flags, took, cycles = 2000000, late = UINT64_MAX;

	if (pmu_caps()->unavailable & NO_CYCLES)
		test_skip("CPUID.0AH:EBX says that cycles are not counted");
	begin(FIXED_CYCLES);
	begin(0);
	flags = take_overflows();
	wrmsr(IA32_FIXED_CTR_CTRL, (FIXED_OS | FIXED_USR | FIXED_PMI) << FIXED_BITS);
	for (unsigned i = 0; i < 5; i++) {
		wrmsr(IA32_PERFEVTSEL0, 0);
		wrmsr(IA32_PMC0, 0);
		wrmsr(IA32_PERFEVTSEL0, EVENT_CYCLES | PMU_OS | PMU_USR | PERFEVTSEL_EN);
		took = wait_for_overflow(cycles, 1);
		EXPECT_EQ(interrupt.count, 1);
		EXPECT(interrupt.status >> FIXED_CYCLES & 1);
		EXPECT(interrupt.value + TOGETHER >= cycles);
		if (took < late)
			late = took;
	}
	test_observe("took", "%lu cycles of the TSC at the least", late);
	EXPECT(late < 500 * cycles); /* an emulator on a busy host needs its time */
	release_overflows(flags);
	end(FIXED_CYCLES);
	end(0);
}

/* Some overflows find the processor while it raises the exception. */
TEST(pmu_interrupt_beside_exception, .group = "pmu", .ids = "PM36", .needs = 0,
     .claim = "a counter of cycles that overflows around a #GP interrupts, and the #GP arrives too",
     .source = "SDM Vol 3, 18.2.2 and table 18-1: 3CH")
{
	uint64_t flags, limit;
	bool interrupts = true;

	begin(FIXED_CYCLES);
	flags = take_overflows();
	wrmsr(IA32_FIXED_CTR_CTRL, (FIXED_OS | FIXED_USR | FIXED_PMI) << FIXED_BITS);
	for (uint64_t cycles = 1000; interrupts && cycles < 1000000; cycles += cycles / 8) {
		start_cycles(cycles, 0);
		EXPECT(!wrmsr_safe(IA32_FIXED_CTR_CTRL, ~0ull)); /* reserved bits */
		limit = tsc_read() + 10000000000;
		while (!*(volatile unsigned *)&interrupt.count && tsc_read() < limit)
			spin(100);
		interrupts = EXPECT_EQ(interrupt.count, 1);
		wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
		pmu_rig_clear(1ull << FIXED_CYCLES);
	}
	release_overflows(flags);
	end(FIXED_CYCLES);
}

/* A counter of ring 3 asks nobody to look at ring 0, where the other one overflows. */
TEST(pmu_freezes_beside_user_counter, .group = "pmu", .ids = "PM37", .needs = 0,
     .claim = "a counter of cycles that overflows in ring 0 freezes itself and one of ring 3, "
	      "which has counted nothing",
     .source = "SDM Vol 3, 17.4.7 and 18.2.4")
{
	const uint64_t both = 1 | 1ull << FIXED_CYCLES;
	uint64_t flags;

	pmu_rig_need_freeze(FREEZE_PERFMON);
	begin(FIXED_CYCLES);
	begin(0);
	flags = take_overflows();
	wrmsr(IA32_PMC0, 0);
	wrmsr(IA32_PERFEVTSEL0, (INSTRUCTIONS & ~PMU_OS) | PMU_USR);
	wrmsr(IA32_FIXED_CTR_CTRL, (FIXED_OS | FIXED_USR | FIXED_PMI) << FIXED_BITS);
	wrmsr(IA32_DEBUGCTL, FREEZE_PERFMON);
	wait_for_overflow(2000000, 1);
	wrmsr(IA32_DEBUGCTL, 0);
	expect_frozen(both);
	EXPECT(interrupt.status >> FIXED_CYCLES & 1);
	EXPECT_EQ(rdmsr(IA32_PMC0), 0);
	release_overflows(flags);
	end(FIXED_CYCLES);
	end(0);
}

/* With nothing in the loop but reads of the TSC; the others would overflow in days. */
static void interrupt_by_cycles(unsigned n, uint64_t all)
{
	uint64_t limit = tsc_read() + 10000000000;

	EACH_COUNTER (other, all) {
		pmu_rig_load(other, 0);
		pmu_rig_control(other, pmu_rig_counting_cycles(other, PMU_OS | PMU_USR, true));
	}
	pmu_rig_load(n, 200000);
	pmu_rig_interrupt.count = 0;
	wrmsr(IA32_PERF_GLOBAL_CTRL, all);
	while (!pmu_rig_interrupt.count && tsc_read() < limit)
		__asm__ volatile("pause");
	EXPECT_EQ(pmu_rig_interrupt.count, 1);
	EXPECT_EQ(pmu_rig_interrupt.status & all, 1ull << n);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
}

TEST(pmu_each_counter_of_cycles, .group = "pmu", .ids = "PM31 PM36", .needs = 0,
     .claim = "each counter of cycles interrupts at its overflow while the program does nothing, "
	      "beside others that are far from theirs",
     .source = "SDM Vol 3, 18.2.1.1 and table 18-1: 3CH")
{
	COUNTERS(all, NO_CYCLES), cycles = pmu_rig_of_cycles(all);

	pmu_rig_take_interrupts(cycles);
	EACH_COUNTER (n, cycles)
		interrupt_by_cycles(n, cycles);
	pmu_rig_release_interrupts();
}

/* In ring 0, to which a counter of ring 3 is blind. A clock of the bus is slow. */
static void expect_clock(unsigned n, uint64_t event, uint64_t all)
{
	const uint64_t on = event | PERFEVTSEL_EN;
	unsigned runs = 1;

	while (!pmu_rig_count(n, on | PMU_OS | PMU_USR, all) && runs < PMU_RIG_RUNS)
		runs++;
	EXPECT(runs < PMU_RIG_RUNS);
	EXPECT(pmu_rig_rests(n, on | PMU_USR, all, runs));
}

TEST(pmu_reference_cycles, .group = "pmu", .ids = "PM27 PM29", .needs = 0,
     .claim = "each general counter, and the fixed one, counts unhalted reference cycles, with USR "
	      "alone those of ring 3",
     .source = "SDM Vol 3, table 18-1: 3CH, unit mask 01H; SDM Vol 3, 18.2.2")
{
	COUNTERS(all, NO_REFERENCE);

	user_visits_open();
	EACH_COUNTER (n, of_reference(all)) {
		uint64_t user = FIXED_USR;

		if (!pmu_rig_is_fixed(n)) {
			expect_clock(n, EVENT_REFERENCE, all);
			user = EVENT_REFERENCE | PMU_USR | PERFEVTSEL_EN;
		}
		pmu_rig_control(n, user);
		wrmsr(IA32_PERF_GLOBAL_CTRL, all);
		for (unsigned runs = 0; runs < PMU_RIG_RUNS && !pmu_rig_value(n); runs++)
			user_visits_run();
		wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
		EXPECT(pmu_rig_value(n));
	}
	user_visits_close();
}

/* Each cycle meets the first ones, and none the next one; of the last ones each has an edge at most
   where it begins. */
enum { ALL_CYCLES = 4, CONDITIONS = 7 };
static const uint32_t of_cycles[CONDITIONS] = {PERFEVTSEL_CMASK(1),
					       PERFEVTSEL_INV,
					       PERFEVTSEL_CMASK(2) | PERFEVTSEL_INV,
					       PERFEVTSEL_CMASK(255) | PERFEVTSEL_INV,
					       PERFEVTSEL_CMASK(1) | PERFEVTSEL_INV,
					       PERFEVTSEL_CMASK(1) | PERFEVTSEL_EDGE,
					       PERFEVTSEL_CMASK(2) | PERFEVTSEL_INV |
						       PERFEVTSEL_EDGE};

/* A cycle is one event: no more than one of them can be in a cycle. */
TEST(pmu_cycles_conditions, .group = "pmu", .ids = "PM27 PM29 PM43 PM45", .needs = 0,
     .claim =
	     "a counter of cycles with CMASK above 1 counts none, with CMASK = 1, or INV alone, all, "
	     "with E few, with USR alone those of ring 3",
     .source = "SDM Vol 3, 18.2.1.1 and table 18-1: 3CH")
{
	const uint64_t on = EVENT_CYCLES | PMU_OS | PMU_USR | PERFEVTSEL_EN;
	COUNTERS(all, NO_CYCLES);

	EACH_COUNTER (n, all & (bit(PMU_FIXED) - 1)) {
		expect_clock(n, EVENT_CYCLES, all);
		for (unsigned i = 0; i < ALL_CYCLES; i++)
			EXPECT(pmu_rig_count(n, on | of_cycles[i], all) > 0);
		for (unsigned least = 2; least < 256; least *= 2)
			EXPECT_EQ(pmu_rig_count(n, on | PERFEVTSEL_CMASK(least), all), 0);
		for (unsigned i = ALL_CYCLES; i < CONDITIONS; i++)
			EXPECT(pmu_rig_count(n, on | of_cycles[i], all) <= 2);
	}
}

/* From `first` on, whose counter is the `n`-th, to that of the ninth at least. */
static void expect_absent(uint32_t first, unsigned n)
{
	do
		EXPECT(msr_is_refused(first + n));
	while (++n <= 8);
}

TEST(pmu_no_counter_above, .group = "pmu", .ids = "PM52", .needs = 0,
     .claim = "the MSRs after those of the counters that CPUID.0AH has raise #GP",
     .source = "SDM Vol 3, 18.2.1.1 and 18.2.2; SDM Vol 2, RDMSR and WRMSR")
{
	uint64_t counters = pmu_rig_open(0);

	if (silicon_is_foreign_guest()) {
		pmu_rig_close(counters);
		test_skip("a hypervisor may ignore what an MSR is that it does not know");
	}
	expect_absent(IA32_PMC0, pmu_rig_general_here());
	expect_absent(IA32_PERFEVTSEL0, pmu_rig_general_here());
	expect_absent(IA32_A_PMC0, pmu_rig_general_here());
	EXPECT(msr_is_refused(IA32_FIXED_CTR0 + pmu_rig_fixed_here()));
	pmu_rig_close(counters);
}

TEST(pmu_any_thread, .group = "pmu", .ids = "PM32 PM51", .needs = 0,
     .claim = "AnyThread of each counter is kept unless CPUID.0AH:EDX[15] deprecates it, and "
	      "counts no other level",
     .source = "SDM Vol 3, 18.2; SDM Vol 2, CPUID: leaf 0AH")
{
	uint64_t counters = pmu_rig_open(0);
	bool deprecated = cpuid(0x0a, 0).edx >> 15 & 1;

	/* It is for cores of two or more logical processors: 18.2.3. */
	deprecated |= !silicon_is_virtual() && (cpuid(0x0b, 0).ebx & 0xffff) < 2;
	if (silicon_is_foreign_guest() || pmu_caps()->version < 3 || deprecated) {
		pmu_rig_close(counters);
		test_skip("AnyThread begins with version 3, and hypervisors refuse it");
	}
	EACH_COUNTER (n, counters) {
		uint64_t any = pmu_rig_is_fixed(n) ? FIXED_ANY : PERFEVTSEL_ANY;

		EXPECT(pmu_rig_takes(n, any));
		for (uint64_t levels = 0; levels <= PMU_USR; levels += PMU_USR) {
			any |= pmu_rig_counting(n, levels, false);
			EXPECT_EQ(pmu_rig_count(n, any, bit(n)), 0);
		}
	}
	pmu_rig_close(counters);
}

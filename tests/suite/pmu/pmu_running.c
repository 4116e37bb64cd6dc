// SPDX-License-Identifier: MIT
// A counter, and what it counts, are written while it counts.
#include "drivers/processor.h"
#include "kernel/lock.h"
#include "tests/framework/test.h"
#include "tests/lib/pmu_rig.h"

/* WRMSR extends bit 31, which is 0 here. Fewer cycles than this pass in a test. */
#define HIGH 0x7f000000ull
enum { NOPS = 200, FEW = 100 };

/* Starts counter `n` with IF = 0; nothing may end the test until it is stopped. */
static uint64_t start(unsigned n, uint64_t control)
{
	uint64_t flags = interrupts_save();

	pmu_rig_load(n, 0);
	pmu_rig_control(n, control);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1ull << n);
	pmu_rig_nops();
	return flags;
}

static void stop(unsigned n, uint64_t flags)
{
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	pmu_rig_control(n, 0);
	interrupts_restore(flags);
}

/* Software has to clear EN of a general counter before it writes to it: SDM Vol 3, 18.2.1.1. Of
   fixed ones the manual says no such thing. The counter's bit of IA32_PERF_GLOBAL_CTRL stays. */
static uint64_t write(unsigned n, uint64_t value)
{
	uint64_t on = pmu_rig_counting(n, PMU_OS, false);

	if (!pmu_rig_is_fixed(n))
		pmu_rig_control(n, on & ~PERFEVTSEL_EN);
	wrmsr(pmu_rig_msr(n), value);
	if (!pmu_rig_is_fixed(n))
		pmu_rig_control(n, on);
	return pmu_rig_value(n);
}

/* A clock may be slower than the NOPs. */
static void expect_written(unsigned n)
{
	uint64_t flags = start(n, pmu_rig_counting(n, PMU_OS, false));
	uint64_t high = write(n, HIGH), low = write(n, 0), status, cleared, last;
	unsigned most = pmu_rig_is_exact(n) ? 1 : PMU_RIG_RUNS;

	write(n, pmu_rig_mask(n) - NOPS / 2);
	do {
		pmu_rig_nops();
		status = pmu_rig_status();
	} while (!(status >> n & 1) && --most);
	pmu_rig_clear(1ull << n);
	cleared = pmu_rig_status();
	write(n, 0);
	pmu_rig_nops();
	last = write(n, 0); /* the same again */
	stop(n, flags);
	EXPECT(high >= HIGH && low < HIGH && last < HIGH);
	EXPECT_EQ(status >> n & 1, 1);
	EXPECT_EQ(cleared >> n & 1, 0);
	if (pmu_rig_is_exact(n))
		EXPECT(high < HIGH + FEW && low < FEW && pmu_rig_value(n) < FEW);
}

TEST(pmu_written_while_counting, .group = "pmu", .ids = "PM34 PM35 PM60", .needs = ON_EACH_CPU,
     .claim = "a counter that counts goes on from what is written to it, and overflows by that; "
	      "its status bit is cleared meanwhile",
     .source = "SDM Vol 3, 18.2.1.1 and 18.2.2")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_CYCLES);

	EACH_COUNTER (n, all)
		expect_written(n);
}

#define PAUSE_CYCLES (1ull << 20) /* of the TSC */
enum { WRITES = 90, ENOUGH = 5, PAUSES = 16 };

static void pause(void)
{
	uint64_t began = __builtin_ia32_rdtsc();

	while (__builtin_ia32_rdtsc() - began < PAUSE_CYCLES)
		pmu_rig_nops();
}

/* Returns the value of a counter that counts, read right after 0 was written to it. A pause is
   before the write. */
static uint64_t after_pause(unsigned n, uint64_t control)
{
	pause();
	if (!pmu_rig_is_fixed(n))
		pmu_rig_control(n, control & ~PERFEVTSEL_EN);
	pmu_rig_load(n, 0);
	if (!pmu_rig_is_fixed(n))
		pmu_rig_control(n, control);
	return pmu_rig_value(n);
}

/* For a counter of cycles. */
static uint64_t counting_cycles(unsigned n)
{
	return pmu_rig_counting_cycles(n, PMU_OS | PMU_USR, false);
}

/* Cycles that counter `n`, which runs, counts in a pause, or in as many pauses as it takes. */
static uint64_t cycles_of_pause(unsigned n)
{
	uint64_t before = pmu_rig_value(n), passed;
	unsigned most = PAUSES;

	do {
		pause();
		passed = pmu_rig_value(n) - before;
	} while (!passed && --most);
	return passed;
}

/* An SMI between a write and a read is rare; a busy host takes the processor away more often. */
static void expect_cycles_gone(unsigned n)
{
	uint64_t control = counting_cycles(n), flags = start(n, control);
	uint64_t passed = cycles_of_pause(n), gone = 0;

	for (unsigned i = 0; i < WRITES && gone < ENOUGH; i++)
		gone += after_pause(n, control) < passed / 2;
	stop(n, flags);
	EXPECT_EQ(gone, ENOUGH);
}

TEST(pmu_cycles_written_while_counting, .group = "pmu", .ids = "PM60", .needs = 0,
     .claim = "of a counter of cycles that is written to while it counts those before are gone",
     .source = "SDM Vol 3, 18.2.1.1 and 18.2.2")
{
	COUNTERS(all, NO_CYCLES);

	EACH_COUNTER (n, all & ~(1ull << PMU_FIXED))
		expect_cycles_gone(n);
}

/* A pause while its bit of IA32_PERF_GLOBAL_CTRL is clear is none of its cycles. */
static void expect_no_pause(unsigned n)
{
	uint64_t flags = start(n, counting_cycles(n)), passed = cycles_of_pause(n), least = 0;

	for (unsigned i = 0; i < WRITES && least < ENOUGH; i++) {
		uint64_t before;

		wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
		before = pmu_rig_value(n);
		pause();
		wrmsr(IA32_PERF_GLOBAL_CTRL, 1ull << n);
		wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
		least += pmu_rig_value(n) - before < passed / 2;
	}
	stop(n, flags);
	EXPECT_EQ(least, ENOUGH);
}

TEST(pmu_cycles_while_stopped, .group = "pmu", .ids = "PM30", .needs = 0,
     .claim = "a counter of cycles that is started again has none of those while it was stopped",
     .source = "SDM Vol 3, 18.2.2")
{
	COUNTERS(all, NO_CYCLES);

	EACH_COUNTER (n, all & ~(1ull << PMU_FIXED))
		expect_no_pause(n);
}

/* Events that counter `n` counts in the NOPs after a write of its control, which are as many times
   200 as one that counts a clock may need. It runs meanwhile. */
static uint64_t selected(unsigned n, uint64_t control, unsigned runs)
{
	uint64_t value, counted;

	pmu_rig_control(n, control);
	value = pmu_rig_value(n);
	do {
		pmu_rig_nops();
		counted = pmu_rig_value(n) - value;
	} while (!counted && --runs);
	return counted;
}

static void expect_selected(unsigned n)
{
	uint64_t on = pmu_rig_counting(n, PMU_OS, false), flags = start(n, on);
	unsigned most = pmu_rig_is_exact(n) ? 1 : PMU_RIG_RUNS;
	uint64_t user = selected(n, pmu_rig_counting(n, PMU_USR, false), 1);
	uint64_t again = selected(n, on, most), off = 0, branches = 0, last;

	if (!pmu_rig_is_fixed(n)) {
		off = selected(n, on | PERFEVTSEL_CMASK(128), 1); /* in no cycle */
		branches = selected(n, EVENT_BRANCHES | PMU_OS | PERFEVTSEL_EN, 1);
	}
	off |= selected(n, 0, 1);
	last = selected(n, on, most);
	stop(n, flags);
	EXPECT_EQ(user, 0);
	EXPECT_EQ(off, 0);
	EXPECT(branches < FEW);
	EXPECT(pmu_rig_is_exact(n) ? again >= NOPS && last >= NOPS : again > 0 && last > 0);
	EXPECT(!pmu_rig_is_exact(n) || pmu_rig_value(n) >= 3 * NOPS); /* none is taken back */
}

TEST(pmu_selected_while_counting, .group = "pmu", .ids = "PM4 PM41 PM61", .needs = ON_EACH_CPU,
     .claim = "a counter that counts has at once the event, the levels, CMASK and the enable that "
	      "are written to its select or control",
     .source = "SDM Vol 3, 18.2.1.1 and 18.2.2")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_CYCLES | NO_BRANCHES);

	EACH_COUNTER (n, all)
		expect_selected(n);
}

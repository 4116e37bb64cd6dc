// SPDX-License-Identifier: MIT
#include "drivers/clock/tsc.h"
#include "drivers/pmu/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "kernel/trace/bts/private.h"
#include "tests/framework/test.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/statistics.h"

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

	if (!pmu_caps()->version)
		test_skip("no architectural performance monitoring of version 2 (CPUID.0AH)");
	if (pmu_owner(pmu, COUNTER))
		test_skip("counter 0 belongs to %s", pmu_owner(pmu, COUNTER));
	test_pin();
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

	if (!pmu_caps()->version)
		test_skip("no architectural performance monitoring of version 2 (CPUID.0AH)");
	test_pin();
	for (unsigned counter = 0; counter < pmu_caps()->general; counter++) {
		if (pmu_owner(pmu, counter))
			continue;
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_CTRL) >> counter & 1, 0);
		free++;
	}
	EXPECT(free);
}

TEST(pmu_leaf_reserved, .group = "pmu", .ids = "PM50", .needs = 0,
     .claim = "CPUID.0AH:ECX and EDX[31:13] are 0 up to version 4 of performance monitoring",
     .source = "SDM Vol 2, CPUID: leaf 0AH")
{
	struct cpuid_result leaf;

	if (!pmu_caps()->version)
		test_skip("no architectural performance monitoring of version 2 (CPUID.0AH)");
	leaf = cpuid(0x0a, 0);
	if ((leaf.eax & 0xff) > 4)
		test_skip("version %u: ECX has the fixed counters", leaf.eax & 0xff);
	EXPECT_EQ(leaf.ecx, 0);
	EXPECT_EQ(leaf.edx >> 13, 0);
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
	struct bts_options options = {.view = TRACE_KERNEL,
				      .privileged = true,
				      .size = 3 * STAGING_RECORDS *
					      sizeof(struct ptrace_bts_record),
				      .overflow = TRACE_STOP};
	struct pmu_cpu *pmu = start(LONG_PERIOD);
	uint64_t select = rdmsr(IA32_PERFEVTSEL0), reached;
	struct tracer *tracer;

	REQUIRE_EQ(bts_attach(current_task(), &options, &tracer), 0);
	reached = bts_cpu(this_cpu())->reached;
	for (unsigned i = 0; i < 3; i++)
		run_loop(STAGING_RECORDS / 2);
	EXPECT(bts_cpu(this_cpu())->reached - reached >= 2);
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
	struct pmu_cpu *pmu = start(LONG_PERIOD);
	uint64_t value = pmu_read(COUNTER);

	run_loop(LOOPS);
	value = pmu_read(COUNTER) - value;
	stop(pmu);
	if (!value)
		test_skip("counter 0 does not count instructions on this processor");
	pmu = start(SHORT_PERIOD);
	run_loop(LOOPS);
	EXPECT_EQ(atomic_load(&overflows), 1);
	stop(pmu);
}

enum { SHARES = 41, WHOLE = 64, SPIN = 2000, CYCLES_UNAVAILABLE = 1 << 0 };

#define CYCLES (0x3c | PMU_USR | PMU_OS | PERFEVTSEL_EN) /* SDM Vol 3, table 18-1 */

static atomic_bool enough;
static atomic_ulong turns;

/* On another CPU: counts cycles, reads them, and lets the processor halt. */
static void count_cycles(void *unused)
{
	(void)unused;
	wrmsr(IA32_PERFEVTSEL0, CYCLES);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
	while (!atomic_load(&enough)) {
		for (unsigned i = 0; i < 200; i++)
			rdmsr(IA32_PMC0);
		task_sleep(100);
		atomic_fetch_add(&turns, 1);
	}
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
}

/* Cycles that are counted here while the TSC counts WHOLE: the median of short runs, of which a
   busy host interrupts fewer than half. */
static uint64_t share(void)
{
	uint64_t shares[SHARES];

	wrmsr(IA32_PERFEVTSEL0, CYCLES);
	for (unsigned i = 0; i < SHARES; i++) {
		uint64_t flags = interrupts_save(), began;

		wrmsr(IA32_PMC0, 0);
		began = tsc_read();
		wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
		run_loop(SPIN);
		wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
		shares[i] = rdmsr(IA32_PMC0) * WHOLE / (tsc_read() - began);
		interrupts_restore(flags);
	}
	return distribution(shares, SHARES).median;
}

TEST(pmu_cycles_of_each_cpu, .group = "pmu", .ids = "PM21 PM27 PM28", .needs = NEED_SMP,
     .claim = "a processor's cycles are counted whole while another counts its own, and halts",
     .source = "SDM Vol 3, 18.2.1.1 and chapter 35")
{
	uint64_t there, here, alone, reached;
	struct task *other;
	unsigned last = cpu_count() - 1;

	task_set_affinity(current_task(), cpu_set_of(last));
	there = pmu_rig_open(CYCLES_UNAVAILABLE);
	task_set_affinity(current_task(), cpu_set_of(0));
	here = pmu_rig_open(CYCLES_UNAVAILABLE);
	alone = share();
	EXPECT(alone > 0);
	atomic_store(&enough, false);
	atomic_store(&turns, 0);
	other = task_create_stopped("cycles", count_cycles, NULL);
	REQUIRE(other != NULL);
	task_set_affinity(other, cpu_set_of(last));
	task_start(other);
	do {
		reached = atomic_load(&turns);
		EXPECT(share() * 2 >= alone);
	} while (!reached || atomic_load(&turns) < 5);
	atomic_store(&enough, true);
	task_join(other);
	task_put(other);
	pmu_rig_close(here);
	task_set_affinity(current_task(), cpu_set_of(last));
	pmu_rig_close(there);
}

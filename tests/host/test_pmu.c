// SPDX-License-Identifier: MIT
/* sources: drivers/pmu/pmu.c tests/host/fake_cpu.c */
#include "drivers/pmu/pmu.h"

#include "drivers/pmu/registers.h"
#include "tests/host/fake_cpu.h"

enum { GENERAL = 2, FIXED = 3, WIDTH = 40 };

#define MASK	     ((1ull << WIDTH) - 1)
#define INSTRUCTIONS 0xc0ull /* event C0H: instructions retired */

struct user {
	unsigned told, counter;
};

static struct pmu_cpu cpu;
static struct user watchdog_state, sampler_state;

static void tell(unsigned counter, void *argument)
{
	struct user *user = argument;

	user->told++;
	user->counter = counter;
}

static const struct pmu_owner watchdog = {"watchdog", tell, &watchdog_state};
static const struct pmu_owner sampler = {"sampler", tell, &sampler_state};
static const struct pmu_owner reader = {"reader", NULL, NULL};

/* Clears in the status register what is written to the register that clears it. */
static void play_overflow_control(void)
{
	fake_msr(IA32_PERF_GLOBAL_STATUS)->value &= ~fake_msr(IA32_PERF_GLOBAL_OVF_CTRL)->value;
	fake_msr(IA32_PERF_GLOBAL_OVF_CTRL)->value = 0;
}

static int start(void **state)
{
	fake_cpu_reset(NEHALEM);
	fake_cpu.leaf[0].eax = 0xa;
	fake_cpu.leaf[0xa] = (struct cpuid_result){.eax = 7 << 24 | WIDTH << 16 | GENERAL << 8 | 3,
						   .ebx = 0x40,
						   .edx = WIDTH << 5 | FIXED};
	for (uint32_t i = 0; i < GENERAL; i++) {
		fake_msr(IA32_PMC0 + i);
		fake_msr(IA32_PERFEVTSEL0 + i);
	}
	for (uint32_t i = 0; i < FIXED; i++)
		fake_msr(IA32_FIXED_CTR0 + i);
	for (uint32_t i = IA32_FIXED_CTR_CTRL; i <= IA32_PERF_GLOBAL_OVF_CTRL; i++)
		fake_msr(i);
	watchdog_state = sampler_state = (struct user){0};
	pmu_init();
	pmu_init_cpu(&cpu);
	fake_log_clear();
	return 0;
}

static void overflow(uint64_t bits)
{
	fake_msr(IA32_PERF_GLOBAL_STATUS)->value |= bits;
}

/* What a CPU of another kind has as well: the boot CPU has version 3, two and three counters. */
UNIT(every_cpu_has_the_counters, .setup_func = start)
{
	fake_cpu.leaf[0xa] = (struct cpuid_result){
		.eax = WIDTH << 16 | 8 << 8 | 5, .ebx = 0x100, .edx = WIDTH << 5 | (FIXED - 1)};
	pmu_limit();
	assert_int_equal(pmu_caps()->version, 3);
	assert_int_equal(pmu_caps()->general, GENERAL);
	assert_int_equal(pmu_caps()->fixed, FIXED - 1);
	assert_int_equal(pmu_caps()->unavailable, UINT32_MAX);
	fake_cpu.leaf[0xa].eax = WIDTH << 16 | 1 << 8 | 2;
	pmu_limit();
	assert_int_equal(pmu_caps()->version, 2);
	assert_int_equal(pmu_caps()->general, 1);
	assert_int_equal(pmu_request(&cpu, 1, &reader), -EINVAL);
	assert_int_equal(pmu_request(&cpu, PMU_FIXED + FIXED - 1, &reader), -EINVAL);
	assert_int_equal(pmu_request(&cpu, 0, &reader), 0);
}

UNIT(detects, .setup_func = start)
{
	assert_int_equal(pmu_caps()->version, 3);
	assert_int_equal(pmu_caps()->general, GENERAL);
	assert_int_equal(pmu_caps()->general_width, WIDTH);
	assert_int_equal(pmu_caps()->fixed, FIXED);
	assert_int_equal(pmu_caps()->fixed_width, WIDTH);
	assert_int_equal(pmu_caps()->unavailable, 0xffffffc0);
}

UNIT(detects_nothing_before_version_2, .setup_func = start)
{
	fake_cpu.leaf[0xa].eax = 2 << 8 | 1;
	pmu_init();
	assert_int_equal(pmu_request(&cpu, 0, &watchdog), -ENODEV);
}

UNIT(detects_nothing_without_the_leaf, .setup_func = start)
{
	fake_cpu.leaf[0].eax = 9;
	pmu_init();
	assert_int_equal(pmu_caps()->version, 0);
}

UNIT(detects_nothing_on_another_vendor, .setup_func = start)
{
	fake_cpu.leaf[0].ebx = 0;
	pmu_init();
	assert_int_equal(pmu_caps()->version, 0);
}

UNIT(names_the_owner_in_a_conflict, .setup_func = start)
{
	assert_int_equal(pmu_request(&cpu, 1, &watchdog), 0);
	assert_int_equal(pmu_request(&cpu, 1, &sampler), -EBUSY);
	assert_string_equal(pmu_owner(&cpu, 1), "watchdog");
	assert_null(pmu_owner(&cpu, 0));
	assert_int_equal(pmu_request(&cpu, 0, &sampler), 0);
	assert_no_writes();
}

UNIT(refuses_counters_that_are_not_there, .setup_func = start)
{
	assert_int_equal(pmu_request(&cpu, GENERAL, &watchdog), -EINVAL);
	assert_int_equal(pmu_request(&cpu, PMU_FIXED + FIXED, &watchdog), -EINVAL);
	assert_int_equal(pmu_request(&cpu, PMU_COUNTERS_MOST, &watchdog), -EINVAL);
	assert_int_equal(pmu_request(&cpu, UINT32_MAX, &watchdog), -EINVAL);
	assert_null(pmu_owner(&cpu, UINT32_MAX));
	assert_int_equal(pmu_read(UINT32_MAX), 0);
}

UNIT(released_counters_can_be_had_again, .setup_func = start)
{
	pmu_request(&cpu, 0, &watchdog);
	pmu_start(&cpu, 0, &watchdog, INSTRUCTIONS | PMU_OS, 1000);
	assert_int_equal(pmu_release(&cpu, 0, &sampler), -EPERM);
	assert_int_equal(pmu_release(&cpu, 0, &watchdog), 0);
	assert_int_equal(fake_msr(IA32_PERFEVTSEL0)->value, 0);
	assert_int_equal(fake_msr(IA32_PERF_GLOBAL_CTRL)->value, 0);
	assert_null(pmu_owner(&cpu, 0));
	assert_int_equal(pmu_request(&cpu, 0, &sampler), 0);
}

/* The counter is off from the first write to the last. */
UNIT(starts_a_general_counter, .setup_func = start)
{
	pmu_request(&cpu, 1, &watchdog);
	assert_int_equal(pmu_start(&cpu, 1, &watchdog, INSTRUCTIONS | PMU_USR | PMU_OS, 1000), 0);
	fake_log_clear(); /* again, while it runs */
	assert_int_equal(pmu_start(&cpu, 1, &watchdog, INSTRUCTIONS | PMU_USR | PMU_OS, 1000), 0);
	assert_writes({IA32_PERF_GLOBAL_CTRL, 0}, {IA32_PERFEVTSEL0 + 1, 0},
		      {IA32_PMC0 + 1, -1000ull & MASK},
		      {IA32_PERFEVTSEL0 + 1,
		       INSTRUCTIONS | PMU_USR | PMU_OS | PERFEVTSEL_EN | PERFEVTSEL_INT},
		      {IA32_PERF_GLOBAL_CTRL, 2});
}

UNIT(starts_a_fixed_counter_beside_another, .setup_func = start)
{
	pmu_request(&cpu, PMU_FIXED, &reader);
	pmu_start(&cpu, PMU_FIXED, &reader, PMU_USR, 1);
	pmu_request(&cpu, PMU_FIXED + 2, &watchdog);
	assert_int_equal(pmu_start(&cpu, PMU_FIXED + 2, &watchdog, PMU_OS, 0x7fffffff), 0);
	assert_int_equal(fake_msr(IA32_FIXED_CTR_CTRL)->value, FIXED_USR | (FIXED_OS | FIXED_PMI)
										   << 8);
	assert_int_equal(fake_msr(IA32_FIXED_CTR0 + 2)->value, -0x7fffffffull & MASK);
	assert_int_equal(fake_msr(IA32_PERF_GLOBAL_CTRL)->value, 5ull << PMU_FIXED);
	assert_int_equal(pmu_stop(&cpu, PMU_FIXED + 2, &watchdog), 0);
	assert_int_equal(fake_msr(IA32_FIXED_CTR_CTRL)->value, FIXED_USR);
	assert_int_equal(fake_msr(IA32_PERF_GLOBAL_CTRL)->value, 1ull << PMU_FIXED);
}

UNIT(refuses_to_start_what_it_cannot, .setup_func = start)
{
	pmu_request(&cpu, 0, &watchdog);
	pmu_request(&cpu, PMU_FIXED, &watchdog);
	assert_int_equal(pmu_start(&cpu, 0, &sampler, INSTRUCTIONS, 1), -EPERM);
	assert_int_equal(pmu_start(&cpu, 1, &watchdog, INSTRUCTIONS, 1), -EPERM);
	assert_int_equal(pmu_start(&cpu, 0, &watchdog, INSTRUCTIONS, 0), -EINVAL);
	assert_int_equal(pmu_start(&cpu, 0, &watchdog, INSTRUCTIONS, 0x80000000), -EINVAL);
	assert_int_equal(pmu_start(&cpu, 0, &watchdog, INSTRUCTIONS | PERFEVTSEL_INT, 1), -EINVAL);
	assert_int_equal(pmu_start(&cpu, 0, &watchdog, 1ull << 32, 1), -EINVAL);
	assert_int_equal(pmu_start(&cpu, PMU_FIXED, &watchdog, INSTRUCTIONS, 1), -EINVAL);
	assert_int_equal(pmu_stop(&cpu, 0, &sampler), -EPERM);
	assert_no_writes();
}

UNIT(tells_the_owner_of_what_overflowed, .setup_func = start)
{
	pmu_request(&cpu, 0, &watchdog);
	pmu_request(&cpu, PMU_FIXED + 1, &sampler);
	overflow(1ull << (PMU_FIXED + 1));
	assert_true(pmu_pmi(&cpu));
	play_overflow_control();
	assert_int_equal(watchdog_state.told, 0);
	assert_int_equal(sampler_state.told, 1);
	assert_int_equal(sampler_state.counter, PMU_FIXED + 1);
	assert_int_equal(fake_msr(IA32_PERF_GLOBAL_STATUS)->value, 0);
	assert_false(pmu_pmi(&cpu));
	assert_int_equal(sampler_state.told, 1);
}

UNIT(tells_two_owners_at_once, .setup_func = start)
{
	pmu_request(&cpu, 0, &watchdog);
	pmu_request(&cpu, 1, &sampler);
	overflow(3);
	assert_true(pmu_pmi(&cpu));
	assert_int_equal(watchdog_state.told, 1);
	assert_int_equal(sampler_state.told, 1);
}

/* The Debug Store's bit 62, a counter that is only read, one that has no owner. */
UNIT(leaves_the_bits_of_others, .setup_func = start)
{
	pmu_request(&cpu, 0, &watchdog);
	pmu_request(&cpu, PMU_FIXED, &reader);
	overflow(1ull << 62 | 1ull << PMU_FIXED | 2);
	fake_log_clear();
	assert_false(pmu_pmi(&cpu));
	assert_no_writes();
	overflow(1);
	assert_true(pmu_pmi(&cpu));
	assert_writes({IA32_PERF_GLOBAL_OVF_CTRL, 1});
}

UNIT(reads_no_msr_while_nobody_waits, .setup_func = start)
{
	pmu_request(&cpu, 0, &reader);
	overflow(1);
	fake_log_clear();
	assert_false(pmu_pmi(&cpu));
	assert_int_equal(fake_cpu.reads, 0);
}

/* SDM Vol 3, 18.2.1: a counter runs if its own control and IA32_PERF_GLOBAL_CTRL enable it. */
UNIT(firmware_keeps_what_it_runs, .setup_func = start)
{
	fake_msr(IA32_PERFEVTSEL0)->value = INSTRUCTIONS | PERFEVTSEL_EN;
	fake_msr(IA32_PERFEVTSEL0 + 1)->value = INSTRUCTIONS | PERFEVTSEL_EN;
	fake_msr(IA32_FIXED_CTR_CTRL)->value = FIXED_OS << 4;
	fake_msr(IA32_PERF_GLOBAL_CTRL)->value = 1 | 2ull << PMU_FIXED;
	pmu_init_cpu(&cpu);
	assert_int_equal(pmu_request(&cpu, 0, &watchdog), -EBUSY);
	assert_string_equal(pmu_owner(&cpu, 0), "firmware");
	assert_int_equal(pmu_request(&cpu, PMU_FIXED + 1, &watchdog), -EBUSY);
	assert_int_equal(pmu_request(&cpu, 1, &watchdog), 0);
	assert_int_equal(pmu_request(&cpu, PMU_FIXED, &watchdog), 0);
	assert_no_writes();
}

/* SDM Vol 3, table 18-11: counter and event select while it is stopped, IA32_PERF_GLOBAL_CTRL last.
 */
UNIT(loads_two_and_runs_them_with_one_write, .setup_func = start)
{
	pmu_request(&cpu, 0, &reader);
	pmu_request(&cpu, 1, &reader);
	assert_int_equal(pmu_load(&cpu, 0, &reader, INSTRUCTIONS | PMU_USR, 7), 0);
	assert_int_equal(pmu_load(&cpu, 1, &reader, INSTRUCTIONS | PMU_OS | PERFEVTSEL_ADAPTIVE, 1),
			 0);
	pmu_run(3, true);
	assert_int_equal(pmu_running(7), 3);
	pmu_run(3, true);
	assert_writes(
		{IA32_PMC0, -7ull & MASK},
		{IA32_PERFEVTSEL0, INSTRUCTIONS | PMU_USR | PERFEVTSEL_EN}, {IA32_PMC0 + 1, MASK},
		{IA32_PERFEVTSEL0 + 1, INSTRUCTIONS | PMU_OS | PERFEVTSEL_ADAPTIVE | PERFEVTSEL_EN},
		{IA32_PERF_GLOBAL_CTRL, 3});
	fake_log_clear();
	pmu_run(1, false);
	assert_writes({IA32_PERF_GLOBAL_CTRL, 2});
	assert_int_equal(pmu_load(&cpu, 0, &watchdog, INSTRUCTIONS, 1), -EPERM);
	assert_int_equal(pmu_load(&cpu, 0, &reader, INSTRUCTIONS, 0), -EINVAL);
	assert_int_equal(pmu_load(&cpu, 0, &reader, INSTRUCTIONS, PMU_LARGEST_PERIOD + 1), -EINVAL);
	assert_int_equal(pmu_load(&cpu, 0, &reader, PERFEVTSEL_INT, 1), -EINVAL);
	pmu_request(&cpu, PMU_FIXED, &reader);
	assert_int_equal(pmu_load(&cpu, PMU_FIXED, &reader, INSTRUCTIONS | PMU_OS, 1), -EINVAL);
	fake_log_clear();
	assert_int_equal(pmu_load(&cpu, PMU_FIXED, &reader, PMU_OS | PERFEVTSEL_ADAPTIVE, 1), 0);
	assert_writes({IA32_FIXED_CTR0, MASK}, {IA32_FIXED_CTR_CTRL, 1ull << 32 | FIXED_OS});
}

UNIT(loads_what_interrupts, .setup_func = start)
{
	pmu_request(&cpu, 0, &watchdog);
	pmu_request(&cpu, PMU_FIXED, &watchdog);
	assert_int_equal(pmu_load(&cpu, 0, &watchdog, INSTRUCTIONS | PMU_USR, 7), 0);
	assert_int_equal(pmu_load(&cpu, PMU_FIXED, &watchdog, PMU_USR, 1), 0);
	assert_writes({IA32_PMC0, -7ull & MASK},
		      {IA32_PERFEVTSEL0, INSTRUCTIONS | PMU_USR | PERFEVTSEL_EN | PERFEVTSEL_INT},
		      {IA32_FIXED_CTR0, MASK}, {IA32_FIXED_CTR_CTRL, FIXED_USR | FIXED_PMI});
}

/* SDM Vol 2, CPUID: bit 6 of EBX is set; then EAX[31:24] has no bit but the first. */
UNIT(knows_absent_events, .setup_func = start)
{
	assert_true(pmu_lacks_event(0x00c5));
	assert_false(pmu_lacks_event(0x01c5));
	assert_false(pmu_lacks_event(0x00c0));
	fake_cpu.leaf[0xa].eax = 1 << 24 | WIDTH << 16 | GENERAL << 8 | 3;
	pmu_limit();
	assert_true(pmu_lacks_event(0x00c0));
	assert_false(pmu_lacks_event(0x003c));
}

UNIT(takes_overflows_of_its_own_counters, .setup_func = start)
{
	overflow(1ull << 62 | 5);
	fake_log_clear();
	assert_int_equal(pmu_take_overflows(1), 1);
	assert_writes({IA32_PERF_GLOBAL_OVF_CTRL, 1ull << 62 | 1});
	play_overflow_control();
	fake_log_clear();
	assert_int_equal(pmu_take_overflows(2), 0);
	assert_no_writes();
}

UNIT(gives_no_overflow_from_before, .setup_func = start)
{
	overflow(5);
	fake_log_clear();
	assert_int_equal(pmu_request(&cpu, 0, &sampler), 0);
	assert_writes({IA32_PERF_GLOBAL_OVF_CTRL, 1});
	play_overflow_control();
	fake_log_clear();
	assert_int_equal(pmu_take_overflows(1), 0);
	assert_int_equal(pmu_request(&cpu, 1, &sampler), 0);
	assert_no_writes();
}

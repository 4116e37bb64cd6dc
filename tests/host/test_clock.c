// SPDX-License-Identifier: MIT
/* sources: drivers/clock/clock.c */
#include "drivers/clock/clock.h"

#include "drivers/apic/lapic.h"
#include "drivers/clock/hpet.h"
#include "drivers/clock/reference.h"
#include "drivers/clock/tsc.h"
#include "drivers/processor.h"
#include "tests/host/host.h"

/* A machine whose time passes only while something is read. */
static struct {
	uint64_t ns;
	uint64_t tsc_hz, lapic_hz;
	uint64_t lapic_start; /* ns */
	uint64_t lapic_told;
	bool hpet, hpet_stopped, pit_stopped, pm_timer;
	uint64_t pause_at, pause_ns; /* the CPU is away once, for so long */
	unsigned reads, slow_every;  /* each so many reads, one takes 30 us longer */
	struct cpuid_result leaf_15h;
} machine;

static uint64_t ticks(uint64_t ns, uint64_t hz)
{
	return ns / 1000000000 * hz + ns % 1000000000 * hz / 1000000000;
}

static void pass(uint64_t ns)
{
	machine.ns += ns;
	if (machine.slow_every && ++machine.reads % machine.slow_every == 0)
		machine.ns += 30000;
	if (machine.pause_ns && machine.ns >= machine.pause_at) {
		machine.ns += machine.pause_ns;
		machine.pause_ns = 0;
	}
}

uint64_t tsc_read(void)
{
	pass(20);
	return ticks(machine.ns, machine.tsc_hz);
}

static uint32_t hpet_read(void)
{
	pass(500);
	return machine.hpet_stopped ? 7 : (uint32_t)ticks(machine.ns + 42949672000, 100000000);
}

static uint32_t pit_read(void)
{
	pass(3000);
	return machine.pit_stopped ? 7 : (uint32_t)ticks(machine.ns, 1193182) | 0xabcd0000;
}

static uint32_t pm_timer_read(void)
{
	pass(1000);
	return (uint32_t)ticks(machine.ns + 4686000000, 3579545) | 0xff000000;
}

const struct reference *hpet_init(void)
{
	static const struct reference reference = {"hpet", 100000000, UINT32_MAX, hpet_read};
	return machine.hpet ? &reference : NULL;
}

const struct reference *pit_start(void)
{
	static const struct reference reference = {"pit", 1193182, 0xffff, pit_read};
	return &reference;
}

const struct reference *pm_timer_find(void)
{
	static const struct reference reference = {"pm_timer", 3579545, 0xffffff, pm_timer_read};
	return machine.pm_timer ? &reference : NULL;
}

void lapic_timer_run_masked(void)
{
	machine.lapic_start = machine.ns;
}

void lapic_timer_stop(void)
{
}

uint32_t lapic_timer_remaining(void)
{
	pass(100);
	return UINT32_MAX - (uint32_t)ticks(machine.ns - machine.lapic_start, machine.lapic_hz);
}

void lapic_timer_set_frequency(uint64_t hz)
{
	machine.lapic_told = hz;
}

struct cpuid_result cpuid(uint32_t leaf, uint32_t subleaf)
{
	return leaf == 0 ? (struct cpuid_result){.eax = 0x16} : machine.leaf_15h;
}

static int build(void **state)
{
	__builtin_memset(&machine, 0, sizeof(machine));
	machine.ns = 123456789;
	machine.tsc_hz = 2500000000;
	machine.lapic_hz = 62500000;
	machine.hpet = machine.pm_timer = true;
	return 0;
}

static bool close_to(uint64_t value, uint64_t expected)
{
	const uint64_t off = value > expected ? value - expected : expected - value;
	return off <= expected / 500; /* 0.2 % */
}

static void measured(const char *reference)
{
	const uint64_t from = machine.ns;

	assert_null(clock_init());
	assert_string_equal(clock_reference(), reference);
	assert_true(close_to(clock_tsc_hz(), machine.tsc_hz));
	assert_true(close_to(machine.lapic_told, machine.lapic_hz));
	if (!machine.slow_every && !machine.pause_at)
		assert_true(machine.ns - from < 3500000);
}

UNIT(before_calibration_time_is_finite, .setup_func = build)
{
	assert_int_equal(tsc_to_us(5000), 5);
}

UNIT(measures_by_hpet, .setup_func = build)
{
	measured("hpet");
}

UNIT(measures_by_pit, .setup_func = build)
{
	machine.hpet = false;
	measured("pit");
}

UNIT(measures_by_pm_timer, .setup_func = build)
{
	machine.hpet = false;
	machine.pit_stopped = true;
	assert_null(clock_init());
	assert_string_equal(clock_reference(), "pm_timer");
	assert_true(close_to(clock_tsc_hz(), machine.tsc_hz));
}

UNIT(a_stopped_clock_is_passed_over, .setup_func = build)
{
	machine.hpet_stopped = true;
	assert_null(clock_init());
	assert_string_equal(clock_reference(), "pit");
}

UNIT(without_any_clock_it_says_so, .setup_func = build)
{
	machine.hpet = machine.pm_timer = false;
	machine.pit_stopped = true;
	assert_non_null(clock_init());
}

UNIT(a_dead_apic_timer_is_an_error, .setup_func = build)
{
	machine.lapic_hz = 0;
	assert_non_null(clock_init());
}

UNIT(interruptions_do_not_count, .setup_func = build)
{
	for (unsigned every = 5; every < 40; every++) {
		build(NULL);
		machine.slow_every = every;
		measured("hpet");
	}
}

UNIT(a_counter_may_wrap, .setup_func = build)
{
	for (uint64_t start = 0; start < 110000000; start += 500000) {
		build(NULL);
		machine.hpet = false;
		machine.ns += start;
		measured("pit");
	}
}

/* Away for a whole turn of the PIT: one window is wrong by a factor, the next two agree. */
UNIT(a_hidden_turn_is_found, .setup_func = build)
{
	machine.hpet = false;
	for (uint64_t delay = 0; delay < 4000000; delay += 50000) {
		build(NULL);
		machine.hpet = false;
		machine.pause_at = machine.ns + delay;
		machine.pause_ns = 60000000;
		measured("pit");
	}
}

UNIT(cpuid_is_exact_where_it_agrees, .setup_func = build)
{
	const uint64_t exact = 2501000000; /* no measurement gives it */

	machine.leaf_15h = (struct cpuid_result){2, 200, 25010000, 0};
	measured("hpet");
	assert_int_equal(clock_tsc_hz(), exact);
	machine.leaf_15h = (struct cpuid_result){2, 200, 38400000, 0};
	measured("hpet");
	machine.leaf_15h = (struct cpuid_result){0, 200, 25010000, 0};
	measured("hpet");
	assert_int_not_equal(clock_tsc_hz(), exact);
}

UNIT(long_times_do_not_overflow, .setup_func = build)
{
	machine.leaf_15h = (struct cpuid_result){2, 200, 25000000, 0};
	assert_null(clock_init());
	assert_int_equal(tsc_to_us(2499), 0);
	assert_int_equal(tsc_to_us(2500), 1);
	assert_int_equal(tsc_to_us(2500000000ull * 86400 * 365), 86400ull * 365 * 1000000);
	assert_int_equal(tsc_to_us(UINT64_MAX), UINT64_MAX / 2500);
}

UNIT(delays_at_least_so_long, .setup_func = build)
{
	assert_null(clock_init());
	const uint64_t from = machine.ns, clock = clock_us();
	delay_us(1000);
	assert_true(machine.ns - from >= 999000 && machine.ns - from < 1010000);
	assert_true(clock_us() - clock >= 1000);
}

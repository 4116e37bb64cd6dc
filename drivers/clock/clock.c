// SPDX-License-Identifier: MIT
#include "drivers/clock/clock.h"

#include "drivers/apic/lapic.h"
#include "drivers/clock/hpet.h"
#include "drivers/clock/reference.h"
#include "drivers/clock/tsc.h"
#include "drivers/processor.h"

#include <stddef.h>

#define SECOND_US	   1000000u
#define WINDOWS_PER_SECOND 667u /* 1.5 ms each; two of them when all goes well */
#define ATTEMPTS	   6
#define TRIES		   5	    /* at each end of a window */
#define FIRST_TICK_READS   10000u   /* a tick takes less than a microsecond */
#define WINDOW_READS	   1000000u /* a read takes at least some nanoseconds */

struct clock_rates {
	uint64_t tsc_hz;
	uint64_t lapic_timer_hz;
	const char *reference;
};

struct sample {
	uint64_t tsc;
	uint32_t reference;
	uint32_t lapic;
};

/* All three counters at one instant: the try that nothing came between. */
static struct sample take_sample(const struct reference *reference)
{
	struct sample best = {0};
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < TRIES; i++) {
		const uint64_t before = tsc_read();
		const uint32_t count = reference->read();
		const uint32_t lapic = lapic_timer_remaining();
		const uint64_t took = tsc_read() - before;
		if (took < least) {
			least = took;
			best = (struct sample){before, count, lapic};
		}
	}
	return best;
}

static bool wait_for(const struct reference *reference, uint32_t since, uint32_t ticks,
		     uint32_t reads)
{
	while (reads && ((reference->read() - since) & reference->mask) < ticks)
		reads--;
	return reads != 0;
}

static bool measure(const struct reference *reference, struct clock_rates *rates)
{
	const uint32_t window = (uint32_t)(reference->hz / WINDOWS_PER_SECOND);

	lapic_timer_run_masked();
	const struct sample first = take_sample(reference);
	if (!wait_for(reference, first.reference, 1, FIRST_TICK_READS) ||
	    !wait_for(reference, first.reference, window, WINDOW_READS))
		return false;
	const struct sample last = take_sample(reference);
	lapic_timer_stop();

	const uint64_t ticks = (last.reference - first.reference) & reference->mask;
	rates->tsc_hz = (last.tsc - first.tsc) * reference->hz / ticks;
	rates->lapic_timer_hz = (uint64_t)(first.lapic - last.lapic) * reference->hz / ticks;
	rates->reference = reference->name;
	return rates->tsc_hz && rates->lapic_timer_hz;
}

/* Within one part in 64. */
static bool agree(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) <= b / 64;
}

/* The exact rate where CPUID has all of it (SDM Vol 2, leaf 15H); 0 where it has not. */
static uint64_t tsc_hz_by_cpuid(void)
{
	if (cpuid(0, 0).eax < 0x15)
		return 0;
	const struct cpuid_result leaf = cpuid(0x15, 0);
	return leaf.eax ? (uint64_t)leaf.ecx * leaf.ebx / leaf.eax : 0;
}

/* False, and `rates` as it was: the reference, the TSC or the local APIC's timer does not count. */
static bool calibrate(const struct reference *reference, struct clock_rates *rates)
{
	struct clock_rates previous = {0}, now; /* 0 agrees with no rate */

	/* Twice the same, since a long pause can hide a whole turn of a narrow counter. */
	for (unsigned i = 0; i < ATTEMPTS; i++) {
		if (!measure(reference, &now))
			return false;
		if (agree(now.tsc_hz, previous.tsc_hz) &&
		    agree(now.lapic_timer_hz, previous.lapic_timer_hz)) {
			const uint64_t exact = tsc_hz_by_cpuid();
			/* A hypervisor may pass on a leaf that is not true here. */
			if (agree(exact, now.tsc_hz))
				now.tsc_hz = exact;
			*rates = now;
			return true;
		}
		previous = now;
	}
	return false;
}

static struct clock_rates rates = {.tsc_hz = 1000000000, .reference = "none"};
static uint64_t start;

const char *clock_init(void)
{
	static const struct reference *(*const finders[])(void) = {hpet_init, pit_start,
								   pm_timer_find};
	for (unsigned i = 0; i < sizeof(finders) / sizeof(finders[0]); i++) {
		const struct reference *reference = finders[i]();
		if (!reference || !calibrate(reference, &rates))
			continue;
		lapic_timer_set_frequency(rates.lapic_timer_hz);
		start = tsc_read();
		return NULL;
	}
	return "neither HPET, PIT nor ACPI timer can measure TSC and local APIC timer";
}

uint64_t clock_tsc_hz(void)
{
	return rates.tsc_hz;
}

const char *clock_reference(void)
{
	return rates.reference;
}

uint64_t tsc_to_us(uint64_t ticks)
{
	/* In two parts: ticks * 1000000 would overflow after hours. */
	return ticks / rates.tsc_hz * SECOND_US + ticks % rates.tsc_hz * SECOND_US / rates.tsc_hz;
}

uint64_t clock_us(void)
{
	return tsc_to_us(tsc_read() - start);
}

void delay_us(uint64_t microseconds)
{
	const uint64_t from = tsc_read();

	while (tsc_to_us(tsc_read() - from) < microseconds)
		__asm__ volatile("pause");
}

/* SPDX-License-Identifier: MIT */
#include "drivers/clock/clock.h"
#include "drivers/apic/lapic.h"
#include "drivers/clock/calibrate.h"
#include "drivers/clock/hpet.h"
#include "drivers/clock/reference.h"
#include "drivers/clock/tsc.h"

#include <stddef.h>

#define SECOND_US 1000000u

static struct clock_rates rates = {.tsc_hz = 1000000000, .reference = "none"};
static uint64_t start;

static const struct reference *find_hpet(void)
{
	return hpet_init() ? hpet_reference() : NULL;
}

const char *clock_init(void)
{
	static const struct reference *(*const finders[])(void) = {find_hpet, pit_start,
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

uint64_t clock_lapic_timer_hz(void)
{
	return rates.lapic_timer_hz;
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

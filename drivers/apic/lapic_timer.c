/* SPDX-License-Identifier: MIT */
#include "drivers/apic/lapic.h"
#include "drivers/apic/registers.h"

#define DIVIDE_BY_16 0x3u
#define SECOND_US    1000000u

static uint64_t frequency;

void lapic_timer_set_vector(uint8_t vector)
{
	apic_write(APIC_TIMER_INITIAL, 0);
	apic_write(APIC_TIMER_DIVIDE, DIVIDE_BY_16);
	apic_write(APIC_LVT_TIMER, vector);
}

void lapic_timer_start(uint32_t ticks)
{
	apic_write(APIC_TIMER_INITIAL, ticks);
}

void lapic_timer_stop(void)
{
	apic_write(APIC_TIMER_INITIAL, 0);
}

uint32_t lapic_timer_remaining(void)
{
	return apic_read(APIC_TIMER_CURRENT);
}

void lapic_timer_run_masked(void)
{
	apic_write(APIC_LVT_TIMER, LVT_MASKED);
	apic_write(APIC_TIMER_DIVIDE, DIVIDE_BY_16);
	apic_write(APIC_TIMER_INITIAL, UINT32_MAX);
}

void lapic_timer_set_frequency(uint64_t hz)
{
	frequency = hz;
}

void lapic_timer_start_us(uint64_t microseconds)
{
	const uint64_t seconds = microseconds / SECOND_US;
	uint64_t ticks = UINT32_MAX;

	if (seconds <= UINT32_MAX / frequency)
		ticks = seconds * frequency + microseconds % SECOND_US * frequency / SECOND_US;
	if (ticks > UINT32_MAX)
		ticks = UINT32_MAX;
	lapic_timer_start(ticks ? (uint32_t)ticks : 1);
}

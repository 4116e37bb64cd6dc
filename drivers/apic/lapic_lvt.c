// SPDX-License-Identifier: MIT
/* Local vector table: performance counter (PMI), NMI pins, timer. */
#include "drivers/apic/lapic.h"
#include "drivers/apic/registers.h"

#define LVT_ACTIVE_LOW (1u << 13)
#define LVT_LEVEL      (1u << 15)

bool lapic_has_lvtpc(void)
{
	/* Entries come in a fixed order; this is the fifth (SDM figure "Local Vector Table"). */
	return (lapic_version() >> 16 & 0xff) >= 4;
}

void lapic_set_lvtpc(uint8_t vector, bool nmi)
{
	apic_write(APIC_LVT_PC, nmi ? LVT_NMI : vector);
}

void lapic_unmask_lvtpc(void)
{
	apic_write(APIC_LVT_PC, apic_read(APIC_LVT_PC) & ~LVT_MASKED);
}

void lapic_mask_lvtpc(void)
{
	apic_write(APIC_LVT_PC, apic_read(APIC_LVT_PC) | LVT_MASKED);
}

uint32_t lapic_read_lvtpc(void)
{
	return apic_read(APIC_LVT_PC);
}

void lapic_set_nmi_pin(unsigned lint, bool active_low, bool level)
{
	apic_write(lint ? APIC_LVT_LINT1 : APIC_LVT_LINT0,
		   LVT_NMI | (active_low ? LVT_ACTIVE_LOW : 0) | (level ? LVT_LEVEL : 0));
}

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

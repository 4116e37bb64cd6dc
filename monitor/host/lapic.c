// SPDX-License-Identifier: MIT
#include "monitor/host/lapic.h"

#include <stddef.h>

#include "monitor/host/cpu.h"
#include "monitor/memory.h"

#define APIC_BASE_ENABLE  (1ull << 11)
#define APIC_BASE_ADDRESS 0x000ffffffffff000ull
enum { ID_SHIFT = 24 };

uint64_t lapic_page(void)
{
	return read_msr(MSR_APIC_BASE) & APIC_BASE_ADDRESS;
}

volatile uint32_t *lapic_registers(void)
{
	uint64_t base = read_msr(MSR_APIC_BASE);

	return base & APIC_BASE_ENABLE ? direct(base & APIC_BASE_ADDRESS) : NULL;
}

uint32_t lapic_id(void)
{
	const volatile uint32_t *lapic = lapic_registers();

	return lapic ? lapic[LAPIC_ID / 4] >> ID_SHIFT : 0;
}

static void wait_until_sent(const volatile uint32_t *lapic)
{
	while (lapic[LAPIC_ICR_LOW / 4] & ICR_PENDING)
		__asm__ volatile("pause");
}

void lapic_send(uint32_t apic_id, uint32_t command)
{
	volatile uint32_t *lapic = lapic_registers();
	uint32_t high;

	if (!lapic)
		return;
	wait_until_sent(lapic);
	high = lapic[LAPIC_ICR_HIGH / 4];
	lapic[LAPIC_ICR_HIGH / 4] = apic_id << ID_SHIFT;
	lapic[LAPIC_ICR_LOW / 4] = command;
	wait_until_sent(lapic);
	lapic[LAPIC_ICR_HIGH / 4] = high;
}

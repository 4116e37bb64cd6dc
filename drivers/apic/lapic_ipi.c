/* SPDX-License-Identifier: MIT */
/* Interrupt command register (SDM Vol 3, "Issuing Interprocessor Interrupts"). */
#include "drivers/apic/lapic.h"
#include "drivers/apic/registers.h"

enum {
	ICR_FIXED = 0u << 8,
	ICR_NMI = 4u << 8,
	ICR_INIT = 5u << 8,
	ICR_STARTUP = 6u << 8,
	ICR_PENDING = 1u << 12,
	ICR_ASSERT = 1u << 14,
	ICR_SELF = 1u << 18,
};

/* An IPI leaves within microseconds; one that never does must not hang the sender. */
#define PENDING_READS 100000u

static void wait_until_sent(void)
{
	for (unsigned i = 0; i < PENDING_READS && (apic_read(APIC_ICR) & ICR_PENDING); i++)
		__asm__ volatile("pause");
}

static bool send(uint32_t apic_id, uint32_t command)
{
	if (lapic_is_x2apic()) {
		apic_write_icr64((uint64_t)apic_id << 32 | command);
		return true;
	}
	if (apic_id >= 0xff) /* eight bits; FFH is a broadcast */
		return false;
	wait_until_sent();
	apic_write(APIC_ICR_HIGH, apic_id << 24);
	apic_write(APIC_ICR, command);
	return true;
}

void lapic_self_ipi(uint8_t vector)
{
	if (lapic_is_x2apic()) {
		apic_write(APIC_SELF_IPI, vector);
		return;
	}
	/* With the shorthand the destination field does not count: an NMI handler may do this
	 * between the two writes of send(). */
	wait_until_sent();
	apic_write(APIC_ICR, ICR_SELF | ICR_ASSERT | ICR_FIXED | vector);
}

bool lapic_send_ipi(uint32_t apic_id, uint8_t vector)
{
	return send(apic_id, ICR_ASSERT | ICR_FIXED | vector);
}

bool lapic_send_nmi(uint32_t apic_id)
{
	return send(apic_id, ICR_ASSERT | ICR_NMI);
}

void lapic_self_nmi(void)
{
	/* The self shorthand is valid with fixed delivery only (SDM table "Valid Combinations"). */
	lapic_send_nmi(lapic_id());
}

bool lapic_send_init(uint32_t apic_id)
{
	return send(apic_id, ICR_ASSERT | ICR_INIT);
}

bool lapic_send_startup(uint32_t apic_id, uint32_t address)
{
	if (address & 0xfff || address >= 0x100000)
		return false;
	return send(apic_id, ICR_ASSERT | ICR_STARTUP | address >> 12);
}

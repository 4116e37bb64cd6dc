// SPDX-License-Identifier: MIT
#include "monitor/svm/lapic.h"

#include <stddef.h>

#include "monitor/host/cpu.h"
#include "monitor/host/lapic.h"
#include "monitor/interp/interp.h"
#include "monitor/svm/guest.h"
#include "monitor/svm/startup.h"

#define BASE_BOOT_PROCESSOR (1ull << 8)
#define BASE_X2APIC	    (1ull << 10)
#define BASE_ENABLE	    (1ull << 11)
#define BASE_ADDRESS	    0x000ffffffffff000ull

enum { FIRST_MSR = 0x800, LAST_MSR = 0x8ff, DESTINATION_SHIFT = 24, IDS_OF_A_CLUSTER = 16 };
enum { FLAT_MODEL = 0xfu << 28, EVERYBODY = 0xffu };

/* MSRs by their offset from 800H: SDM Vol 3, table 10-6. */
enum msr {
	ID = 0x02,
	LDR = 0x0d,
	ESR = 0x28,
	EOI = 0x0b,
	ICR = 0x30,
	SELF_IPI = 0x3f,
};

/* The accesses that the others allow; bits beyond `writable` are reserved. */
static const struct {
	uint8_t first, last;
	bool readable;
	uint32_t writable;
} registers[] = {
	{0x02, 0x03, true, 0},		/* ID, version */
	{0x08, 0x08, true, 0xff},	/* TPR */
	{0x0a, 0x0a, true, 0},		/* PPR */
	{0x0b, 0x0b, false, 0},		/* EOI */
	{0x0d, 0x0d, true, 0},		/* LDR */
	{0x0f, 0x0f, true, 0x13ff},	/* SVR */
	{0x10, 0x28, true, 0},		/* ISR, TMR, IRR, ESR */
	{0x30, 0x30, true, 0xccfff},	/* ICR, of whose upper half every bit may be set */
	{0x32, 0x32, true, 0x710ff},	/* LVT timer */
	{0x33, 0x34, true, 0x117ff},	/* LVT thermal sensor, performance counters */
	{0x35, 0x36, true, 0x1f7ff},	/* LVT LINT0, LINT1 */
	{0x37, 0x37, true, 0x110ff},	/* LVT error */
	{0x38, 0x38, true, 0xffffffff}, /* initial count */
	{0x39, 0x39, true, 0},		/* current count */
	{0x3e, 0x3e, true, 0xb},	/* divide configuration */
	{0x3f, 0x3f, false, 0xff},	/* SELF IPI */
};

/* In LVT entries, delivery status and remote IRR are read-only, not reserved: SDM Vol 3, 10.5.1. */
enum { FIRST_LVT = 0x32, LAST_LVT = 0x37, LVT_READ_ONLY = 1 << 12 | 1 << 14 };

/* Index into the table above; its length if there is no such register. */
static size_t find(uint32_t msr)
{
	size_t n = 0;

	while (n < sizeof(registers) / sizeof(registers[0]) &&
	       (msr < registers[n].first || msr > registers[n].last))
		n++;
	return n;
}

/* The ID that the processor had at power-up, whatever the guest wrote since. */
static uint32_t initial_id(void)
{
	return cpuid(1, 0).ebx >> 24;
}

bool apic_is_on(const struct vcpu *vcpu)
{
	return !guest_of((struct vcpu *)vcpu)->apic_off;
}

bool apic_base_read(const struct guest *guest, uint64_t *value)
{
	*value = read_msr(MSR_APIC_BASE) | (guest->x2apic ? BASE_X2APIC : 0);
	if (guest->apic_off)
		*value &= ~BASE_ENABLE;
	return true;
}

/* x2APIC mode takes the ID of power-up, not one that was written: SDM Vol 3, 10.12.5.1. Interrupts
   by logical destination still find the real local APIC, in the flat model. */
static void enter_x2apic(struct guest *guest)
{
	volatile uint32_t *lapic = lapic_registers();

	if (!lapic)
		return;
	lapic[LAPIC_ID / 4] = initial_id() << DESTINATION_SHIFT;
	lapic[LAPIC_DESTINATION_FORMAT / 4] = FLAT_MODEL;
	lapic[LAPIC_LOGICAL_DESTINATION / 4] = 1u << (DESTINATION_SHIFT + initial_id() % 8);
	lapic_note_destination(guest);
}

/* SDM Vol 3, 10.12.5: from xAPIC to x2APIC, and from there to disabled alone. The real local APIC
   stays on: QEMU's, once off, cannot be turned on again. */
bool apic_base_write(struct guest *guest, uint64_t value)
{
	bool on = value & BASE_ENABLE, x2apic = value & BASE_X2APIC, was_off = guest->apic_off;

	if (!lapic_is_watched(value & BASE_ADDRESS) || (x2apic && (!on || was_off)) ||
	    (guest->x2apic && on && !x2apic) ||
	    !write_msr_safe(MSR_APIC_BASE, (value & ~BASE_X2APIC) | BASE_ENABLE))
		return false;
	if (x2apic && !guest->x2apic)
		enter_x2apic(guest);
	guest->x2apic = x2apic;
	guest->apic_off = !on;
	interp_forget(&guest->vcpu);
	if (!on && !was_off)
		lapic_turn_off(value & BASE_BOOT_PROCESSOR);
	if (on && was_off)
		lapic_power_up(guest);
	return true;
}

bool x2apic_owns_msr(uint32_t index)
{
	return index >= FIRST_MSR && index <= LAST_MSR;
}

/* SDM Vol 3, 10.12.10.2: derived from the ID. */
static uint32_t logical_id(uint32_t id)
{
	return id / IDS_OF_A_CLUSTER << 16 | 1u << id % IDS_OF_A_CLUSTER;
}

bool x2apic_read_msr(struct guest *guest, uint32_t index, uint64_t *value)
{
	const volatile uint32_t *lapic = lapic_registers();
	uint32_t msr = index - FIRST_MSR;
	size_t n = find(msr);

	if (!guest->x2apic || !lapic || n == sizeof(registers) / sizeof(registers[0]) ||
	    !registers[n].readable)
		return false;
	*value = lapic[msr * 4];
	if (msr == ID)
		*value = lapic_id();
	else if (msr == LDR)
		*value = logical_id(lapic_id());
	else if (msr == ICR)
		*value = (*value & ~(uint64_t)ICR_PENDING) | guest->x2apic_destination << 32;
	return true;
}

/* The real local APICs are in xAPIC mode: nobody has an ID from 255 on, where all are addressed. */
static void send(struct guest *guest, uint32_t command, uint32_t destination)
{
	if (!(command & ICR_SHORTHAND) && destination >= EVERYBODY && destination != ~0u)
		return;
	if (!startup_command(guest, command, (uint8_t)destination))
		lapic_send(destination & EVERYBODY, command);
}

/* Logical destinations are a cluster and a set of its processors; each of them is addressed by its
   ID, and only the first where the lowest priority is to be found. */
static void write_icr(struct guest *guest, uint64_t value)
{
	uint32_t command = (uint32_t)value, destination = (uint32_t)(value >> 32);
	uint32_t physical = command & ~(uint32_t)ICR_LOGICAL;
	uint32_t first = (destination >> 16) * IDS_OF_A_CLUSTER;

	guest->x2apic_destination = destination;
	if (command & ICR_SHORTHAND || !(command & ICR_LOGICAL) || destination == ~0u) {
		send(guest, destination == ~0u ? physical : command, destination);
		return;
	}
	for (uint32_t id = 0; id < IDS_OF_A_CLUSTER; id++) {
		if (!(destination >> id & 1))
			continue;
		if ((command & ICR_DELIVERY) == ICR_LOWEST_PRIORITY) {
			send(guest, physical & ~(uint32_t)ICR_DELIVERY, first + id);
			return;
		}
		send(guest, physical, first + id);
	}
}

bool x2apic_write_msr(struct guest *guest, uint32_t index, uint64_t value)
{
	volatile uint32_t *lapic = lapic_registers();
	uint32_t msr = index - FIRST_MSR;
	size_t n = find(msr);

	if (!guest->x2apic || !lapic || n == sizeof(registers) / sizeof(registers[0]))
		return false;
	if ((msr == ICR ? (uint32_t)value : value) & ~(uint64_t)registers[n].writable)
		return false;
	if (!registers[n].writable && msr != EOI && msr != ESR)
		return false;
	if (msr >= FIRST_LVT && msr <= LAST_LVT)
		value &= ~(uint64_t)LVT_READ_ONLY;
	/* It may have made an interrupt deliverable. */
	guest->vcpu.attention = true;
	if (msr == ICR)
		write_icr(guest, value);
	else if (msr == SELF_IPI)
		lapic_send(0, (uint32_t)value | ICR_ASSERT | ICR_SELF);
	else
		lapic[msr * 4] = (uint32_t)value;
	lapic_note_write(guest, msr * 16);
	return true;
}

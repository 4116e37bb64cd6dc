// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"

#include "drivers/mmio.h"
#include "drivers/processor.h"

#include <stddef.h>

#define IA32_APIC_BASE	 0x1bu
#define BASE_X2APIC	 (1ull << 10)
#define BASE_ENABLE	 (1ull << 11)
#define BASE_ADDRESS	 0x000ffffffffff000ull
#define X2APIC_MSR	 0x800u
#define SVR_ENABLE	 0x100u
#define CPUID_EDX_APIC	 (1u << 9)
#define CPUID_ECX_X2APIC (1u << 21)

static volatile void *registers; /* NULL in x2APIC mode */
static bool x2apic;

uint32_t apic_read(enum lapic_register reg)
{
	return x2apic ? (uint32_t)rdmsr(X2APIC_MSR + (reg >> 4)) : mmio_read32(registers, reg);
}

static void apic_write(enum lapic_register reg, uint32_t value)
{
	if (x2apic)
		wrmsr(X2APIC_MSR + (reg >> 4), value);
	else
		mmio_write32(registers, reg, value);
}

/* SDM Vol 3, 10.8.4: a bit for each vector, in ISR and in IRR alike. */
bool lapic_in_service(uint8_t vector)
{
	return apic_read(APIC_ISR + (vector / 32u << 4)) >> vector % 32 & 1;
}

bool lapic_requested(void)
{
	for (enum lapic_register reg = APIC_IRR; reg < APIC_IRR + 0x80; reg += 0x10)
		if (apic_read(reg))
			return true;
	return false;
}

/* A vector that firmware left in service holds back every interrupt of lower priority. */
static void end_leftovers(void)
{
	unsigned ended = 0;
	for (enum lapic_register reg = APIC_ISR; reg < APIC_ISR + 0x80; reg += 0x10) {
		while (apic_read(reg) && ended++ < 256)
			lapic_eoi();
	}
}

/* Firmware's settings go; LINT0 with them, through which the 8259 interrupts the boot CPU. */
static void take_over(void)
{
	static const enum lapic_register entries[] = {
		APIC_LVT_TIMER, APIC_LVT_LINT0,	  APIC_LVT_LINT1, APIC_LVT_ERROR,
		APIC_LVT_PC,	APIC_LVT_THERMAL, APIC_LVT_CMCI,
	};
	const unsigned highest = apic_read(APIC_VERSION) >> 16 & 0xff;

	apic_write(APIC_SVR, SVR_ENABLE | LAPIC_SPURIOUS_VECTOR);
	/* First of all: masking the others with vector 0 may count as an error. */
	apic_write(APIC_LVT_ERROR, LVT_MASKED);
	for (unsigned i = 0; i < sizeof(entries) / sizeof(entries[0]) && i <= highest; i++)
		apic_write(entries[i], LVT_MASKED);
	apic_write(APIC_TIMER_INITIAL, 0);
	apic_write(APIC_TPR, 0);
	end_leftovers();
	apic_write(APIC_ESR, 0); /* what was noted until now */
}

const char *lapic_init(void)
{
	uint64_t base;

	if (!(cpuid(1, 0).edx & CPUID_EDX_APIC))
		return "no local APIC: CPUID.1:EDX[9] is 0";
	if (!rdmsr_safe(IA32_APIC_BASE, &base))
		return "no local APIC: IA32_APIC_BASE cannot be read";
	if (base & BASE_X2APIC) {
		if (registers)
			return "this CPU's APIC is in x2APIC mode, the boot CPU's is not";
		x2apic = true;
	} else {
		uint64_t wanted = base | BASE_ENABLE;
		if (wanted != base && !wrmsr_safe(IA32_APIC_BASE, wanted))
			return "IA32_APIC_BASE refuses to enable the local APIC";
		if (x2apic && !wrmsr_safe(IA32_APIC_BASE, wanted | BASE_X2APIC))
			return "IA32_APIC_BASE refuses the boot CPU's x2APIC mode";
		if (!x2apic && !registers)
			registers = mmio_map(base & BASE_ADDRESS, 4096);
		if (!x2apic && !registers)
			return "the local APIC's registers cannot be mapped";
	}
	take_over();
	return NULL;
}

bool lapic_enable_x2apic(void)
{
	if (x2apic)
		return true;
	if (!(cpuid(1, 0).ecx & CPUID_ECX_X2APIC) ||
	    !wrmsr_safe(IA32_APIC_BASE, rdmsr(IA32_APIC_BASE) | BASE_ENABLE | BASE_X2APIC) ||
	    !(rdmsr(IA32_APIC_BASE) & BASE_X2APIC))
		return false;
	x2apic = true;
	registers = NULL;
	return true;
}

bool lapic_is_x2apic(void)
{
	return x2apic;
}

uint32_t lapic_id(void)
{
	const uint32_t id = apic_read(APIC_ID);
	return x2apic ? id : id >> 24;
}

void lapic_eoi(void)
{
	apic_write(APIC_EOI, 0);
}

void lapic_set_task_priority(uint8_t priority)
{
	apic_write(APIC_TPR, priority);
}

/* Interrupt command register (SDM Vol 3, "Issuing Interprocessor Interrupts"). */

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
	if (x2apic) {
		/* This WRMSR does not serialize: what the target shall see must be visible before
		 * it (SDM Vol 3, "MSR Access in x2APIC Mode"). The whole register is one MSR. */
		__asm__ volatile("mfence; lfence" : : : "memory");
		wrmsr(X2APIC_MSR + (APIC_ICR >> 4), (uint64_t)apic_id << 32 | command);
		return true;
	}
	if (apic_id > XAPIC_ID_MOST)
		return false;
	wait_until_sent();
	apic_write(APIC_ICR_HIGH, apic_id << 24);
	apic_write(APIC_ICR, command);
	return true;
}

void lapic_self_ipi(uint8_t vector)
{
	if (x2apic) {
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

/* Local vector table: performance counter (PMI), timer. */

bool lapic_has_lvtpc(void)
{
	/* Entries come in a fixed order; this is the fifth (SDM figure "Local Vector Table"). */
	return (apic_read(APIC_VERSION) >> 16 & 0xff) >= 4;
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

#define DIVIDE_BY_16 0x3u
#define SECOND_US    1000000u

static uint64_t frequency;

void lapic_timer_set_vector(uint8_t vector)
{
	apic_write(APIC_TIMER_INITIAL, 0);
	apic_write(APIC_TIMER_DIVIDE, DIVIDE_BY_16);
	apic_write(APIC_LVT_TIMER, vector);
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
	apic_write(APIC_TIMER_INITIAL, ticks ? (uint32_t)ticks : 1);
}

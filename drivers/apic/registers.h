/* SPDX-License-Identifier: MIT */
/* Local APIC registers by their offset in memory; the MSR is 800H + offset / 16. */
#ifndef SPOOR_DRIVERS_APIC_REGISTERS_H
#define SPOOR_DRIVERS_APIC_REGISTERS_H

#include <stdint.h>

enum lapic_register {
	APIC_ID = 0x020,
	APIC_VERSION = 0x030,
	APIC_TPR = 0x080,
	APIC_EOI = 0x0b0,
	APIC_SVR = 0x0f0,
	APIC_ISR = 0x100, /* 256 bits, 32 in every 16 bytes */
	APIC_IRR = 0x200, /* as APIC_ISR */
	APIC_ESR = 0x280,
	APIC_LVT_CMCI = 0x2f0,
	APIC_ICR = 0x300,
	APIC_ICR_HIGH = 0x310, /* xAPIC only */
	APIC_LVT_TIMER = 0x320,
	APIC_LVT_THERMAL = 0x330,
	APIC_LVT_PC = 0x340,
	APIC_LVT_LINT0 = 0x350,
	APIC_LVT_LINT1 = 0x360,
	APIC_LVT_ERROR = 0x370,
	APIC_TIMER_INITIAL = 0x380,
	APIC_TIMER_CURRENT = 0x390,
	APIC_TIMER_DIVIDE = 0x3e0,
	APIC_SELF_IPI = 0x3f0, /* x2APIC only */
};

/* NMI context. */
uint32_t apic_read(enum lapic_register reg);
void apic_write(enum lapic_register reg, uint32_t value);
/* x2APIC: the whole interrupt command register is one MSR. */
void apic_write_icr64(uint64_t value);

#endif

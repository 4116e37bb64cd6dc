/* SPDX-License-Identifier: MIT */
/*
 * The local APIC of the processor that calls. It belongs to the guest: what is done here must not
 * be seen by it. xAPIC only: x2APIC is not enumerated.
 */
#pragma once

#include <stdint.h>

/* Offsets of registers: SDM Vol 3, table 10-1. */
enum lapic_register {
	LAPIC_ID = 0x20,
	LAPIC_TPR = 0x80,
	LAPIC_EOI = 0xb0,
	LAPIC_LOGICAL_DESTINATION = 0xd0,
	LAPIC_DESTINATION_FORMAT = 0xe0,
	LAPIC_SPURIOUS = 0xf0,
	LAPIC_ISR = 0x100, /* 8 words, 16 bytes apart */
	LAPIC_ICR_LOW = 0x300,
	LAPIC_ICR_HIGH = 0x310,
	LAPIC_LVT = 0x320, /* timer, thermal sensor, LVTPC, LINT0, LINT1, error: 16 bytes apart */
	LAPIC_LVTPC = 0x340,
	LAPIC_LINT0 = 0x350,
	LAPIC_LINT1 = 0x360,
	LAPIC_LVT_END = 0x380,
	LAPIC_INITIAL_COUNT = 0x380,
	LAPIC_DIVIDE = 0x3e0,
};

/* The interrupt command register: SDM Vol 3, figure 10-12. */
enum lapic_command {
	ICR_VECTOR = 0xff,
	ICR_DELIVERY = 7 << 8,
	ICR_FIXED = 0 << 8,
	ICR_LOWEST_PRIORITY = 1 << 8,
	ICR_NMI = 4 << 8,
	ICR_INIT = 5 << 8,
	ICR_STARTUP = 6 << 8,
	ICR_LOGICAL = 1 << 11,
	ICR_PENDING = 1 << 12,
	ICR_ASSERT = 1 << 14,
	ICR_LEVEL = 1 << 15,
	ICR_SHORTHAND = 3 << 18,
	ICR_SELF = 1 << 18,
	ICR_ALL_OTHERS = 3 << 18,
};

/* The page of the registers, physical, whether the local APIC is enabled or not. */
uint64_t lapic_page(void);

/* The registers, as 32-bit words; NULL if the guest has turned its local APIC off. */
volatile uint32_t *lapic_registers(void);

uint32_t lapic_id(void);

/* Sends `command` to the processor with this APIC ID, or to those that its shorthand says; waits
   until it is on its way. ICR high keeps its value. Nothing is sent by an APIC that is off. */
void lapic_send(uint32_t apic_id, uint32_t command);

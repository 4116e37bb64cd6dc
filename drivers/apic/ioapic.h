/* SPDX-License-Identifier: MIT */
/*
 * I/O APICs as the MADT lists them (82093AA data sheet; ICH and PCH data sheets). Interrupts are
 * named by their global system interrupt (GSI). Not in an interrupt or NMI, and one CPU at a
 * time: each register takes two accesses.
 */
#ifndef SPOOR_DRIVERS_IOAPIC_H
#define SPOOR_DRIVERS_IOAPIC_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Masks every input but those that firmware made SMIs, and the 8259s where there are some. Returns
 * how many I/O APICs there are, 0 for none. After acpi_init(), with IF = 0.
 */
unsigned ioapic_init(void);

/* True if one of them has this input. */
bool ioapic_has(uint32_t gsi);

struct ioapic_route {
	uint32_t gsi;
	uint32_t apic_id; /* of the CPU, below FFH */
	uint8_t vector;	  /* does not count for an NMI */
	bool nmi;	  /* the trigger is then always an edge */
	bool active_low;
	bool level;
};

/* Routes and unmasks. False: no such input, or the CPU cannot be addressed. */
bool ioapic_route(const struct ioapic_route *route);

/* False: no such input. */
bool ioapic_mask(uint32_t gsi);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * I/O APICs as the MADT lists them (82093AA data sheet; ICH and PCH data sheets). Interrupts are
 * named by their global system interrupt (GSI). Not in an interrupt or NMI, and one CPU at a
 * time: each register takes two accesses.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Masks every input but those that firmware made SMIs, and the 8259s where there are some. Returns
 * how many I/O APICs there are, 0 for none. After acpi_init(), with IF = 0.
 */
unsigned ioapic_init(void);

/* True if one of them has this input. */
bool ioapic_has(uint32_t gsi);

/*
 * Has this input interrupt a CPU, whose APIC id is below FFH, by NMI at each rising edge. False: no
 * such input, or the CPU cannot be addressed.
 */
bool ioapic_route_nmi(uint32_t gsi, uint32_t apic_id);

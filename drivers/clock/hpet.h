/* SPDX-License-Identifier: MIT */
/*
 * High precision event timer (IA-PC HPET specification 1.0a): a counter, and one of its comparators
 * as a deadline that IF = 0 cannot hold off: it arrives as an NMI through the I/O APIC.
 */
#pragma once

#include "drivers/clock/reference.h"

#include <stdbool.h>

/*
 * Finds it by ACPI, silences all comparators and lets the counter run. NULL: there is none, or
 * none that makes sense. After acpi_init(); boot CPU.
 */
const struct reference *hpet_init(void);

uint64_t hpet_counter(void); /* 64 bits, or 32 that wrap around. NMI */

/*
 * Takes a comparator for the deadline and routes it to the CPU `apic_id`. False: no HPET, no I/O
 * APIC, or no input that both can use. After hpet_init() and ioapic_init(); the rest needs it.
 */
bool hpet_nmi_init(uint32_t apic_id);

/*
 * One NMI `microseconds` from now, in place of the one that was set. Returns for how many it was
 * set: fewer where the comparator does not reach that far. NMI
 */
uint64_t hpet_nmi_after(uint64_t microseconds);
void hpet_nmi_cancel(void); /* NMI. One already under way still arrives */

/* True from its deadline on, until it is set again or cancelled. NMI */
bool hpet_nmi_expired(void);

/* SPDX-License-Identifier: MIT */
/*
 * Time by the TSC, measured once against a clock of known frequency: HPET, else PIT, else the ACPI
 * timer.
 */
#pragma once

#include <stdint.h>

/*
 * Measures the TSC and the local APIC's timer, in less than 5 ms, and sets the latter in its
 * driver. NULL, or a sentence that says what is missing. After acpi_init() and lapic_init(), boot
 * CPU; leaves the APIC timer masked.
 */
const char *clock_init(void);

uint64_t clock_tsc_hz(void);
const char *clock_reference(void); /* what was measured against, one word */

/* The rest works in any context; before clock_init() as if the TSC ran at 1 GHz. */
uint64_t clock_us(void);	      /* microseconds since clock_init() */
uint64_t tsc_to_us(uint64_t ticks);   /* a difference of two TSC values, rounded down */
void delay_us(uint64_t microseconds); /* busy; at least so long */

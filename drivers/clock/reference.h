/* SPDX-License-Identifier: MIT */
/*
 * Free-running counters of known frequency, against which others are measured: the PIT and the ACPI
 * timer here, the HPET in hpet.h.
 */
#pragma once

#include <stdint.h>

struct reference {
	const char *name;
	uint64_t hz;
	uint32_t mask;		/* the bits that count, from bit 0 */
	uint32_t (*read)(void); /* counts up; other bits may be anything */
};

/*
 * 8254 programmable interval timer: channel 2, which no interrupt hangs on. Starts it at its
 * longest, with the speaker off. What it measures must end within 50 ms: the counter goes round
 * once in 55. Boot.
 */
const struct reference *pit_start(void);

/* ACPI power management timer (ACPI 6.5, 4.8.3.3). NULL: ACPI names none. After acpi_init(). */
const struct reference *pm_timer_find(void);

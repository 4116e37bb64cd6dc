/* SPDX-License-Identifier: MIT */
/* Between the files of this driver. */
#ifndef SPOOR_DRIVERS_CLOCK_CALIBRATE_H
#define SPOOR_DRIVERS_CLOCK_CALIBRATE_H

#include "drivers/clock/reference.h"

#include <stdbool.h>

struct clock_rates {
	uint64_t tsc_hz;
	uint64_t lapic_timer_hz;
	const char *reference;
};

/* False, and `rates` as it was: the reference, the TSC or the local APIC's timer does not count. */
bool calibrate(const struct reference *reference, struct clock_rates *rates);

#endif

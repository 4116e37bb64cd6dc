/* SPDX-License-Identifier: MIT */
/* Replaces drivers/clock/tsc.h on the host: the test keeps the time. */
#ifndef SPOOR_DRIVERS_TSC_H
#define SPOOR_DRIVERS_TSC_H

#include <stdint.h>

uint64_t tsc_read(void);

#endif

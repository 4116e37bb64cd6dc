/* SPDX-License-Identifier: MIT */
/* 8254 programmable interval timer: channel 2, which no interrupt hangs on. */
#ifndef SPOOR_DRIVERS_PIT_H
#define SPOOR_DRIVERS_PIT_H

#include "drivers/clock/reference.h"

/*
 * Starts channel 2 at its longest, with the speaker off. What it measures must end within 50 ms:
 * the counter goes round once in 55. Boot.
 */
const struct reference *pit_start(void);

#endif

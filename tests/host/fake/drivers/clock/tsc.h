/* SPDX-License-Identifier: MIT */
/* Replaces drivers/clock/tsc.h on the host: the test keeps the time. */
#pragma once

#include <stdint.h>

uint64_t tsc_read(void);

/* SPDX-License-Identifier: MIT */
/* Whether the kernel runs on this processor or on a virtual one. */
#ifndef SPOOR_MONITOR_DECISION_H
#define SPOOR_MONITOR_DECISION_H

#include <stdbool.h>

#include "monitor/options.h"

/* Firmware may have left branch tracing on: says so and turns it off. */
void clear_leftover_tracing(void);

struct decision {
	bool run_as_guest;
	const char *reason; /* one line */
};

struct decision decide(enum vbts wanted);

#endif

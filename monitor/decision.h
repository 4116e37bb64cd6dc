/* SPDX-License-Identifier: MIT */
/* Whether the kernel runs on this processor or on a virtual one. */
#pragma once

#include "monitor/options.h"

#include <stdbool.h>

/* Firmware may have left branch tracing on: says so and turns it off. */
void clear_leftover_tracing(void);

struct decision {
	bool run_as_guest;
	const char *reason; /* one line */
};

struct decision decide(enum vbts wanted);

/* Which virtual silicon the command line asked for: a variant, or a defect. */

/* Prints what can be chosen and ends the run, if the line asked for that. */
void choice_list(const struct options *options);

/*
 * Says what was chosen, on the monitor's own lines: the guest does not know. Ends the run where
 * something was chosen and the kernel does not run on virtual silicon.
 */
void choice_announce(const struct options *options, bool run_as_guest);

/* The chosen silicon; and that of every second processor, NULL where all are alike. */
const struct silicon *choice_make(const struct options *options);
const struct silicon *choice_make_other(const struct options *options);

/* SPDX-License-Identifier: MIT */
/* Which virtual silicon the command line asked for: a variant, or a defect. */
#ifndef SPOOR_MONITOR_CHOICE_H
#define SPOOR_MONITOR_CHOICE_H

#include <stdbool.h>

#include "monitor/options.h"
#include "monitor/silicon.h"

/* Prints what can be chosen and ends the run, if the line asked for that. */
void choice_list(const struct options *options);

/*
 * Says what was chosen, on the monitor's own lines: the guest does not know. Ends the run where
 * something was chosen and the kernel does not run on virtual silicon.
 */
void choice_announce(const struct options *options, bool run_as_guest);

/* The chosen silicon. */
const struct silicon *choice_make(const struct options *options);

#endif

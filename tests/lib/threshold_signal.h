/* SPDX-License-Identifier: MIT */
/* Programs whose children stop at the thresholds of their traces. */
#ifndef SPOOR_TESTS_LIB_THRESHOLD_SIGNAL_H
#define SPOOR_TESTS_LIB_THRESHOLD_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

enum { THRESHOLD_USER, THRESHOLD_KERNEL, THRESHOLD_IN_CALLS, THRESHOLD_KILLED, THRESHOLD_SENT };

/*
 * Runs the program ptrace_signal in this mode for so many walks, or more if scale= says so (fewer
 * may not come to a threshold), with the interrupt delivered as NMI, or as a fixed vector, on all
 * CPUs; expects it to find nothing wrong.
 */
void threshold_signal(unsigned mode, uint64_t walks, bool nmi);

#endif

/* SPDX-License-Identifier: MIT */
/* A tracer in TRACE_SIGNAL whose threshold is reached where the test wants it. */
#ifndef SPOOR_TESTS_LIB_CROSSING_H
#define SPOOR_TESTS_LIB_CROSSING_H

#include "tests/lib/held.h"

/*
 * A task that walks in the kernel and in ring 3 is traced in all; after each walk its threshold is
 * put 0, 1, 2, ... records ahead, with interrupts off, and it calls `way`, on whose way the
 * threshold is crossed. Fails the test unless that happened and nothing is missing or came twice,
 * with the interrupt delivered either way.
 */
void crossing_walks(void (*way)(struct tracer *tracer));

#endif

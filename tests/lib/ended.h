/* SPDX-License-Identifier: MIT */
/* What must hold once a traced task is gone. */
#ifndef SPOOR_TESTS_LIB_ENDED_H
#define SPOOR_TESTS_LIB_ENDED_H

#include "tests/lib/walker.h"

/*
 * `walker` has ended, by itself or by a kill: fails the test unless its trace is off the hardware,
 * its records can still be read and are the first of its walks in order, nothing is written to
 * its memory while others are traced, and all of it is given back.
 */
void ended_expect(struct walker *walker);

#endif

/* SPDX-License-Identifier: MIT */
/* Whether a buffer works that begins `offset` bytes behind the start of a page. */
#ifndef SPOOR_TESTS_LIB_ALIGNED_H
#define SPOOR_TESTS_LIB_ALIGNED_H

#include "tests/lib/rig.h"

#define ALIGNED_BRANCHES 24

/*
 * Traces so many branches into such a buffer and returns how many of the first records are right.
 * Fails the test if anything around the buffer was written.
 */
size_t aligned_right(size_t offset);

#endif

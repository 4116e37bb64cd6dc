/* SPDX-License-Identifier: MIT */
/* Least, median and most of a few numbers. */
#ifndef SPOOR_TESTS_LIB_STATISTICS_H
#define SPOOR_TESTS_LIB_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

struct distribution {
	uint64_t least, median, most;
};

/* Sorts `values`; all zero if there are none. */
struct distribution distribution(uint64_t *values, size_t count);

#endif

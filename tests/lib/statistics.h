/* SPDX-License-Identifier: MIT */
/* Least, median and most of a few numbers. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct distribution {
	uint64_t least, median, most;
};

/* Sorts `values`; all zero if there are none. */
struct distribution distribution(uint64_t *values, size_t count);

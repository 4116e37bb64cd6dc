/* SPDX-License-Identifier: MIT */
/* The last branches of a stream so far. */
#pragma once

#include "tools/view/code.h"

#include <stdio.h>

#define LAST_MOST 32

/* All zero: none. */
struct last {
	struct {
		const struct space *space;
		uint64_t from, to;
	} branches[LAST_MOST];
	uint64_t count; /* of all that were added */
};

/* `space` and its code stay valid for as long as `last` does. */
void last_add(struct last *last, const struct space *space, uint64_t from, uint64_t to);

/*
 * Writes JSON, the oldest first: [["function+0x1 (file:line)", "function+0x2 (file:line)"], ...].
 * Of the last LAST_MOST branches at most.
 */
void last_put(const struct last *last, FILE *to);

/* SPDX-License-Identifier: MIT */
/*
 * How often each instruction of a stream ran, and the source lines that they are of: what a page
 * shows of a function. The code between two branches is a block, which ran from its first
 * instruction to its last.
 */
#pragma once

#include "tools/view/code.h"

#include <stdio.h>

struct listing;

struct listing *listing_new(void);
void listing_free(struct listing *listing);

/*
 * The instructions from `at` on up to the one at `from` ran once; the one at `from` only if
 * `executed`. `space` and its code stay valid until listing_free().
 */
void listing_add(struct listing *listing, const struct space *space, uint64_t at, uint64_t from,
		 bool executed);

/* Whether nothing ran of which the code is known. */
bool listing_is_empty(const struct listing *listing);

/*
 * Writes JSON: {"functions": [{"frame", "start": "0x...", "file", "rows": [[offset from start,
 * count, source or -1, line, text], ...]}, ...], "sources": [{"name", "newer", "lines": [[number,
 * text], ...]}, ...]}. A function is there if `frame_of` has a number for its name, which is NULL
 * outside of any function; -1: it has none. The lines of a source are those of rows and up to
 * LISTING_HOLE lines between two of them; none if there is no such file. `newer`: it was written
 * after the code was.
 */
void listing_put(const struct listing *listing, FILE *to,
		 long (*frame_of)(void *argument, const char *name, uint64_t address),
		 void *argument);

#define LISTING_HOLE 8

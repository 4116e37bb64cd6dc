/* SPDX-License-Identifier: MIT */
/*
 * Memory that trace hardware writes to, and the accounts that it is charged to. It is an area
 * (mm/area.h): the object at its start, and a pattern from there to the page that is not present.
 * An overrun within one record is legal on some silicon and shows in the pattern; anything longer
 * faults.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct trace_account;
struct tracer;

#define TRACE_PATTERN_BYTES 64 /* at the least */

/* Pages for an object of `bytes` and its pattern. */
size_t trace_memory_pages(size_t bytes);

/* NULL when memory is out. */
void *trace_memory_alloc(size_t bytes);

/* Frees it. Returns false if the pattern was overwritten. NULL is a no-op that returns true. */
bool trace_memory_free(void *object, size_t bytes);

/*
 * Returns what it charged: `bytes`, a multiple of PAGE_SIZE; or, where the limit leaves less, all
 * whole pages that are left; or 0 where these are less than `least`. `spared` bytes of what is
 * charged already do not count against the limit. NULL charges nothing and returns `bytes`.
 */
size_t account_charge(struct trace_account *account, size_t bytes, size_t least, size_t spared);
void account_uncharge(struct trace_account *account, size_t bytes);

/* What a tracer takes: pages, its own one among them, and a buffer. */
struct trace_size {
	struct trace_account *account; /* NULL: the kernel's own, not charged */
	const struct tracer *replaces; /* does not count against the limit; or NULL */
	size_t pages;
	size_t bytes, least; /* of the buffer, and what may be left of it; 0: there is none */
};

/*
 * A tracer alone in its page, all zero besides what is charged; `size->bytes` is what the limit
 * leaves of the buffer, which the caller makes. NULL: there is no memory, or not enough is left.
 */
struct tracer *trace_new_page(unsigned unit, struct trace_size *size);

/* Frees it and what it is charged. Returns true. */
bool trace_free_page(struct tracer *tracer);

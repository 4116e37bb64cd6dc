/* SPDX-License-Identifier: MIT */
/*
 * Memory that trace hardware writes to: an area (mm/area.h), the object at its start, and a
 * pattern from there to the page that is not present. An overrun within one record is legal on
 * some silicon and shows in the pattern; anything longer faults.
 */
#ifndef SPOOR_KERNEL_TRACE_MEMORY_H
#define SPOOR_KERNEL_TRACE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#define TRACE_PATTERN_BYTES 64 /* at the least */

/* Pages for an object of `bytes` and its pattern. */
size_t trace_memory_pages(size_t bytes);

/* NULL when memory is out. */
void *trace_memory_alloc(size_t bytes);

/* Frees it. False: the pattern was not whole. NULL is allowed, and whole. */
bool trace_memory_free(void *object, size_t bytes);

#endif

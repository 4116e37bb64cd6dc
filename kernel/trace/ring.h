/* SPDX-License-Identifier: MIT */
/*
 * A tracer's ring: the BTS buffer of a DS area, so that the hardware can write it as well as the
 * kernel, in turns. The caller locks.
 */
#ifndef SPOOR_KERNEL_TRACE_RING_H
#define SPOOR_KERNEL_TRACE_RING_H

#include "drivers/ds/record.h"

struct trace_ring {
	void *area;
	size_t size;	/* slots */
	size_t index;	/* the slot that is written next */
	size_t used;	/* slots before it that count */
	uint64_t lost;	/* records overwritten, or not stored, for want of room */
	bool wrapped;	/* more than that: the hardware went round */
	bool unchecked; /* the hardware wrote: some slots may hold what the view does not */
	struct bts_struct replaced[2]; /* what stood where the sentinels stand */
};

/* An empty ring in `area`, whose BTS buffer is set and clear. */
void ring_init(struct trace_ring *ring, void *area);

/* Adds a record: over the oldest if the ring is full and `wrap`, else it is lost (false). */
bool ring_put(struct trace_ring *ring, const struct bts_struct *record, bool wrap);

/* The hardware is about to write, and has written: its recording is stopped. */
void ring_lend(struct trace_ring *ring);
void ring_return(struct trace_ring *ring);

/* Drops what the hardware wrote outside of `view`. Before anything below, and cheap if not so. */
void ring_check(struct trace_ring *ring, unsigned view);

/* To read from the record at `at` on, 0 being the oldest: one of the first `used`. */
struct ds_cursor ring_cursor(const struct trace_ring *ring, size_t at);

/* Removes the `count` oldest; removes all and forgets losses. */
void ring_drop(struct trace_ring *ring, size_t count);
void ring_clear(struct trace_ring *ring);

#endif

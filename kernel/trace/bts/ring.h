/* SPDX-License-Identifier: MIT */
/*
 * A tracer's ring: the BTS buffer of a DS area, so that the hardware can write it as well as the
 * kernel, in turns. The caller locks.
 *
 * Every record that enters a ring has the next position. A reader that names the position where it
 * goes on learns what the ring has overwritten in between.
 */
#pragma once

#include "drivers/ds/record.h"

/*
 * Slots of the buffer that hold no record, so that a ring that hardware has just filled differs
 * from one that it has overwritten: one is enough, and one more where hardware leaves the last
 * unused.
 */
#define RING_SPARE 2

struct trace_ring {
	void *area;
	struct ds_record_64 *slot; /* the kernel runs in IA-32e mode: records are never shorter */
	size_t size;		   /* records that it holds at most */
	size_t slots;		   /* that hardware uses: all, or all but the last */
	size_t index;		   /* the slot that is written next */
	size_t used;		   /* slots before it that hold a record */
	uint64_t next;		   /* position of the next record; that of the first is 1 */
	uint64_t cursor;  /* where reading goes on: the position after the last that was removed */
	uint64_t unknown; /* how many records had a position below this one is not known */
	uint64_t lost;	  /* records overwritten, or not stored, for want of room */
	bool lost_more;	  /* more than that, nobody knows how many */
	struct {
		size_t at;
		struct ds_record_64 replaced;
	} sentinels[2];
};

/* Makes an empty ring of the cleared BTS buffer of `area`, which has `size` + RING_SPARE slots. */
void ring_init(struct trace_ring *ring, void *area, size_t size);

/* Adds a record: over the oldest if the ring is full and `wrap`, else it is lost (false). */
bool ring_put(struct trace_ring *ring, const struct bts_struct *record, bool wrap);

/* The hardware is about to write, and has written: its recording is stopped. */
void ring_lend(struct trace_ring *ring);
void ring_return(struct trace_ring *ring);

/* The position of the oldest record; that of the next if there is none. */
static inline uint64_t ring_first(const struct trace_ring *ring)
{
	return ring->next - ring->used;
}

/*
 * True if records are missing between `position` (0: where reading goes on) and the oldest:
 * `*number`, or an unknown number if that is 0.
 */
bool ring_has_gap(const struct trace_ring *ring, uint64_t position, uint64_t *number);

/* Where the record at `position` is, which the ring holds. */
struct ds_record_64 *ring_slot(const struct trace_ring *ring, uint64_t position);

/* To read from the record at `at` on, 0 being the oldest: one of the first `used`. */
struct ds_cursor ring_cursor(const struct trace_ring *ring, size_t at);

/* Removes the `count` oldest; removes all and forgets losses. */
void ring_drop(struct trace_ring *ring, size_t count);
void ring_clear(struct trace_ring *ring);

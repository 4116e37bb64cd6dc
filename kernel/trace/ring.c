// SPDX-License-Identifier: MIT
#include "kernel/trace/ring.h"

#include "kernel/trace/record.h"

static const struct bts_struct empty = {BTS_INVALID, 0, 0, 0};

static size_t before_index(const struct trace_ring *ring, size_t count)
{
	return ring->index >= count ? ring->index - count : ring->index + ring->size - count;
}

static struct bts_struct slot(const struct trace_ring *ring, size_t at)
{
	struct bts_struct record = empty;

	ds_read_bts(ring->area, at, &record);
	return record;
}

void ring_init(struct trace_ring *ring, void *area)
{
	*ring = (struct trace_ring){.area = area, .size = ds_get_bts_end(area)};
}

bool ring_put(struct trace_ring *ring, const struct bts_struct *record, bool wrap)
{
	if (ring->used == ring->size) {
		ring->lost++;
		if (!wrap)
			return false;
		ring->used--;
	}
	ds_put_bts(ring->area, ring->index, record);
	ring->index = (ring->index + 1) % ring->size;
	ring->used++;
	return true;
}

/*
 * The index says where the hardware stopped, not how often it went round. The slots that a whole
 * round writes last are cleared: the one before the index, and, for silicon that leaves the
 * buffer's last slot unused, the one before that.
 */
void ring_lend(struct trace_ring *ring)
{
	for (size_t i = 0; i < 2; i++) {
		size_t at = before_index(ring, i + 1);

		ring->replaced[i] = slot(ring, at);
		ds_put_bts(ring->area, at, &empty);
	}
	ds_set(ring->area, DS_BTS_INDEX,
	       ds_get(ring->area, DS_BTS_BUFFER_BASE) +
		       ring->index * ds_configuration->record_size);
}

void ring_return(struct trace_ring *ring)
{
	size_t last = before_index(ring, 1), last_but_one = before_index(ring, 2);
	size_t index = ds_get_bts_index(ring->area) % ring->size;
	size_t written =
		index >= ring->index ? index - ring->index : index + ring->size - ring->index;
	size_t room = ring->size - ring->used;
	bool reached = written == ring->size - 1; /* the last slot but one, in the first round */

	if (slot(ring, last).qualifier != BTS_INVALID ||
	    (!reached && slot(ring, last_but_one).qualifier != BTS_INVALID)) {
		ring->wrapped = true;
		ring->used = ring->size;
	} else {
		ds_put_bts(ring->area, last, &ring->replaced[0]);
		if (!reached)
			ds_put_bts(ring->area, last_but_one, &ring->replaced[1]);
		ring->lost += written > room ? written - room : 0;
		ring->used = written > room ? ring->size : ring->used + written;
	}
	ring->index = index;
	ring->unchecked = true;
}

static bool wanted(const struct bts_struct *record, unsigned view)
{
	return record->qualifier != BTS_INVALID && record_in_view(record, view);
}

/* Goes on from `*cursor` for as long as what stands there is wanted; how many that are. */
static size_t count_wanted(struct ds_cursor *cursor, size_t most, unsigned view)
{
	for (size_t i = 0; i < most; i++) {
		struct bts_struct record = ds_cursor_read(cursor);

		if (!wanted(&record, view))
			return i;
	}
	return most;
}

void ring_check(struct trace_ring *ring, unsigned view)
{
	size_t first = before_index(ring, ring->used), kept;
	struct ds_cursor cursor;

	if (!ring->unchecked)
		return;
	cursor = ring_cursor(ring, 0);
	kept = count_wanted(&cursor, ring->used, view);
	for (size_t i = kept + 1; i < ring->used; i++) {
		struct bts_struct record = ds_cursor_read(&cursor);

		if (wanted(&record, view))
			ds_put_bts(ring->area, (first + kept++) % ring->size, &record);
	}
	ring->index = (first + kept) % ring->size;
	ring->used = kept;
	ring->unchecked = false;
}

struct ds_cursor ring_cursor(const struct trace_ring *ring, size_t at)
{
	return ds_cursor_at(ring->area, before_index(ring, ring->used - at), ring->size);
}

void ring_drop(struct trace_ring *ring, size_t count)
{
	ring->used -= count;
}

void ring_clear(struct trace_ring *ring)
{
	ring->used = 0;
	ring->lost = 0;
	ring->wrapped = false;
	ring->unchecked = false;
}

// SPDX-License-Identifier: MIT
#include "kernel/trace/bts/ring.h"

static size_t before_index(const struct trace_ring *ring, size_t count)
{
	return ring->index >= count ? ring->index - count : ring->index + ring->slots - count;
}

static size_t all_slots(const struct trace_ring *ring)
{
	return ring->size + RING_SPARE;
}

void ring_init(struct trace_ring *ring, void *area, size_t size)
{
	*ring = (struct trace_ring){
		.area = area,
		.slot = (void *)(uintptr_t)ds_get(area, DS_BTS_BUFFER_BASE),
		.size = size,
		.slots = size + RING_SPARE,
		.next = 1,
		.cursor = 1,
	};
}

bool ring_put(struct trace_ring *ring, const struct bts_struct *record, bool wrap)
{
	if (ring->used == ring->size) {
		ring->lost++;
		if (!wrap)
			return false;
		ring->used--;
	}
	ring->slot[ring->index] = (struct ds_record_64){record->from, record->to, record->flags};
	if (++ring->index >= ring->slots)
		ring->index = 0;
	ring->used++;
	ring->next++;
	return true;
}

static bool is_empty(const struct trace_ring *ring, size_t at)
{
	return !(ring->slot[at].from | ring->slot[at].to);
}

static void set_sentinel(struct trace_ring *ring, unsigned i, size_t at)
{
	ring->sentinels[i].at = at;
	ring->sentinels[i].replaced = ring->slot[at];
	ring->slot[at] = (struct ds_record_64){0, 0, 0};
}

/*
 * The index says where the hardware stopped, not how often it went round. Two slots are cleared:
 * the buffer's last, which says whether the hardware uses that, and of the others the one that a
 * round from the index on writes last.
 */
void ring_lend(struct trace_ring *ring)
{
	size_t last = all_slots(ring) - 1;

	set_sentinel(ring, 0, last);
	set_sentinel(ring, 1, ring->index ? ring->index - 1 : last - 1);
	ds_set(ring->area, DS_BTS_INDEX, (uintptr_t)&ring->slot[ring->index]);
}

/*
 * How many records the hardware wrote, which stopped before slot `stop`; SIZE_MAX: more than there
 * are slots, or as many. A round has at least one record more than the ring holds.
 */
static size_t count_written(struct trace_ring *ring, size_t stop)
{
	size_t last = all_slots(ring) - 1, start = ring->index;
	bool wrote_last = !is_empty(ring, last), round = !is_empty(ring, ring->sentinels[1].at);

	if (start == 0)
		round = wrote_last || (round && stop < last);
	if ((round || stop < start) && !wrote_last)
		ring->slots = last;
	if (round)
		return SIZE_MAX;
	return stop >= start ? stop - start : stop + ring->slots - start;
}

static void restore_sentinels(struct trace_ring *ring)
{
	for (unsigned i = 0; i < 2; i++)
		if (is_empty(ring, ring->sentinels[i].at))
			ring->slot[ring->sentinels[i].at] = ring->sentinels[i].replaced;
}

/* The slot that the index is at: one of the ring's, or after the last, whatever the field holds. */
static size_t find_stop(const struct trace_ring *ring)
{
	uint64_t base = (uintptr_t)ring->slot, index = ds_get(ring->area, DS_BTS_INDEX);
	size_t at = index > base ? (index - base) / sizeof(struct ds_record_64) : 0;

	return at < all_slots(ring) ? at : all_slots(ring);
}

void ring_return(struct trace_ring *ring)
{
	size_t stop = find_stop(ring), room = ring->size - ring->used;
	size_t written = count_written(ring, stop);

	if (written == SIZE_MAX) {
		ring->lost_more = true;
		ring->used = ring->size;
		ring->next += all_slots(ring);
		ring->unknown = ring_first(ring);
	} else {
		restore_sentinels(ring);
		ring->lost += written > room ? written - room : 0;
		ring->used = written > room ? ring->size : ring->used + written;
		ring->next += written;
	}
	ring->index = stop >= ring->slots ? 0 : stop;
}

bool ring_has_gap(const struct trace_ring *ring, uint64_t position, uint64_t *number)
{
	uint64_t from = position ? position : ring->cursor;

	*number = from < ring->unknown ? 0 : ring_first(ring) - from;
	return from < ring_first(ring);
}

struct ds_record_64 *ring_slot(const struct trace_ring *ring, uint64_t position)
{
	return &ring->slot[before_index(ring, ring->next - position)];
}

struct ds_cursor ring_cursor(const struct trace_ring *ring, size_t at)
{
	return ds_cursor_at(ring->area, before_index(ring, ring->used - at), ring->slots);
}

void ring_drop(struct trace_ring *ring, size_t count)
{
	ring->used -= count;
	ring->cursor = ring_first(ring);
}

void ring_clear(struct trace_ring *ring)
{
	ring->used = 0;
	ring->cursor = ring->next;
	ring->lost = 0;
	ring->lost_more = false;
}

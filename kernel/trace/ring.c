// SPDX-License-Identifier: MIT
#include "kernel/trace/ring.h"

void ring_put(struct trace_ring *ring, const struct bts_struct *record)
{
	size_t tail = ring->head + ring->used;

	if (ring->used == ring->size) {
		ring->lost++;
		return;
	}
	ring->slots[tail < ring->size ? tail : tail - ring->size] = *record;
	ring->used++;
}

bool ring_take(struct trace_ring *ring, struct bts_struct *record)
{
	if (!ring->used)
		return false;
	*record = ring->slots[ring->head];
	if (++ring->head == ring->size)
		ring->head = 0;
	ring->used--;
	return true;
}

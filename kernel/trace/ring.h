/* SPDX-License-Identifier: MIT */
/* Records on their way from the hardware's buffer to a reader. Interrupts off, one CPU. */
#ifndef SPOOR_KERNEL_TRACE_RING_H
#define SPOOR_KERNEL_TRACE_RING_H

#include "drivers/ds/area.h"

struct trace_ring {
	struct bts_struct *slots;
	size_t size;	   /* in records */
	size_t head, used; /* head: the oldest */
	uint64_t lost;	   /* records that found the ring full */
};

void ring_put(struct trace_ring *ring, const struct bts_struct *record);
bool ring_take(struct trace_ring *ring, struct bts_struct *record); /* false: empty */

#endif

// SPDX-License-Identifier: MIT
// The buffer that a CPU's hardware writes in the linear shape. It is there from boot on, so
// that recording can always start.
#include "kernel/end.h"
#include "kernel/trace/bts/private.h"
#include "kernel/trace/memory.h"

/* The rest is room for what the CPU goes on to record while interrupts are off. */
#define STAGING_THRESHOLD (STAGING_RECORDS / 2)

/*
 * Nearer, and the branches of the interrupt's own way back could reach the threshold again before
 * the task has got on. Of those, hardware that records ring 3 only still stores the last.
 */
#define LEAST	      128
#define LEAST_OF_USER 16

_Static_assert(STAGING_RECORDS - STAGING_THRESHOLD >= DS_DEFAULT_MARGIN,
	       "room after the threshold");

/*
 * A lease holds one view; a staging has one for each that the hardware knows, all of the same
 * memory. A CPU has one loaded at a time, and leaves it empty.
 */
void staging_create(struct cpu *cpu)
{
	struct ds_request request = {
		.area = trace_memory_alloc(DS_AREA_SIZE),
		.buffer = trace_memory_alloc(STAGING_RECORDS * ds_configuration->record_size),
		.bytes = STAGING_RECORDS * ds_configuration->record_size,
		.overflow = DS_O_SIGNAL,
		.margin = STAGING_RECORDS - STAGING_THRESHOLD,
	};

	if (!request.area || !request.buffer)
		panic("no memory to trace CPU %u", cpu->index);
	for (unsigned view = TRACE_USER; view <= (TRACE_USER | TRACE_KERNEL); view++) {
		request.filter = hardware_filter(view);
		if (ds_request_bts(&bts_cpu(cpu)->staging[view], &request))
			panic("no lease to trace CPU %u", cpu->index);
	}
	/* With the maximum of the manual a buffer that has room left never looks full. */
	ds_set(request.area, DS_BTS_ABSOLUTE_MAXIMUM,
	       (uintptr_t)request.buffer + request.bytes + 1);
}

void staging_set_threshold(struct bts_cpu *bts, unsigned view, size_t records)
{
	size_t least = view == TRACE_USER ? LEAST_OF_USER : LEAST;

	if (records < least)
		records = least;
	if (records > STAGING_THRESHOLD)
		records = STAGING_THRESHOLD;
	ds_set_overflow(bts->staging[TRACE_USER].area, DS_O_SIGNAL, STAGING_RECORDS - records);
}

// SPDX-License-Identifier: MIT
#include "kernel/trace/bts/private.h"
#include "kernel/trace/bts/record.h"

/* Copied at a time, with the context at rest and IF = 0. */
#define MOST_AT_ONCE 4096

struct reading {
	struct ptrace_bts_record *records;
	bool *predicted;   /* each branch; NULL: not wanted */
	uint64_t position; /* where it goes on; 0: at the oldest */
	size_t most, index;
	bool remove, keep;
	size_t available, count; /* before, and of those that were copied */
};

/* Copies `count` records, which are there, from the one at `at`, 0 being the oldest. */
static void copy_out(const struct trace_ring *ring, size_t at, struct ptrace_bts_record *to,
		     bool *predicted, size_t count)
{
	struct ds_cursor cursor = ring_cursor(ring, at);

	for (; count; count--) {
		struct bts_struct record = ds_cursor_read(&cursor);

		*to++ = record_for_reader(&record);
		if (predicted)
			*predicted++ = record.flags & ds_configuration->predicted;
	}
}

static void copy_records(struct tracer *of, void *argument)
{
	struct reading *reading = argument;
	struct bts_tracer *tracer = bts_of(of);
	struct trace_ring *ring = &tracer->ring;
	uint64_t first = ring_first(ring), number = 0;
	size_t at = reading->position > first ? reading->position - first : 0, left;
	size_t most = reading->most < MOST_AT_ONCE ? reading->most : MOST_AT_ONCE;
	bool gap = most && tracer_has_gap(tracer, reading->position, &number);
	struct bts_struct before = record_gap(number);

	reading->available = tracer_available(tracer);
	if (gap)
		reading->records[0] = record_for_reader(&before);
	left = ring->used > at ? ring->used - at : 0;
	if (left > most - gap)
		left = most - gap;
	if (left)
		copy_out(ring, at, reading->records + gap,
			 reading->predicted ? reading->predicted + gap : NULL, left);
	reading->count = gap + left;
	reading->records += reading->count;
	if (reading->predicted)
		reading->predicted += reading->count;
	reading->position = first + at + left;
	if (reading->remove && reading->count)
		ring_drop(ring, left);
}

/* Never more than there were when it began: a task that reads its own trace adds to it. */
static size_t read_records(struct tracer *tracer, struct reading *reading)
{
	size_t done = 0, most = reading->most;

	do {
		reading->most = most - done;
		trace_perform(tracer, copy_records, reading);
		if (!done && reading->available < most)
			most = reading->available;
		done += reading->count;
	} while (reading->count && done < most);
	return done;
}

size_t bts_read_predicted(struct tracer *tracer, struct ptrace_bts_record *records, bool *predicted,
			  size_t most)
{
	struct reading reading = {
		.records = records, .predicted = predicted, .most = most, .remove = true};

	return read_records(tracer, &reading);
}

size_t bts_read(struct tracer *tracer, struct ptrace_bts_record *records, size_t most)
{
	return bts_read_predicted(tracer, records, NULL, most);
}

size_t bts_peek(struct tracer *tracer, uint64_t *position, struct ptrace_bts_record *records,
		size_t most)
{
	struct reading reading = {.records = records, .position = *position, .most = most};
	size_t count = read_records(tracer, &reading);

	*position = reading.position;
	return count;
}

static void keep_records(struct tracer *of, void *argument)
{
	struct reading *reading = argument;
	struct bts_tracer *tracer = bts_of(of);

	tracer->kept = reading->keep;
	tracer_put_gap(tracer, 0);
	reading->available = tracer_available(tracer);
}

size_t bts_keep(struct tracer *tracer, bool keep)
{
	struct reading reading = {.keep = keep};

	trace_perform(tracer, keep_records, &reading);
	return reading.available;
}

size_t bts_available(struct tracer *tracer)
{
	return bts_keep(tracer, false);
}

static void get_record(struct tracer *tracer, void *argument)
{
	struct reading *reading = argument;
	const struct trace_ring *ring = &bts_of(tracer)->ring;

	if (reading->index >= tracer_available(bts_of(tracer)))
		return;
	if (reading->index < ring->used) /* else the gap before the oldest */
		reading->position = ring->next - 1 - reading->index;
	copy_records(tracer, reading);
}

int bts_get(struct tracer *tracer, size_t index, struct ptrace_bts_record *record)
{
	struct reading reading = {.index = index, .records = record, .most = 1};

	trace_perform(tracer, get_record, &reading);
	return reading.count ? 0 : -EINVAL;
}

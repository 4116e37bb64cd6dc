// SPDX-License-Identifier: MIT
#include "kernel/trace/context.h"
#include "kernel/trace/record.h"

/* Copied at a time, with the context at rest and IF = 0. */
#define MOST_AT_ONCE 4096

struct reading {
	struct tracer *tracer;
	struct ptrace_bts_record *records;
	size_t first, most; /* from the oldest */
	bool remove;
	size_t available, count; /* before, and of those that were copied */
};

static void check(struct tracer *tracer)
{
	ring_check(&tracer->ring, tracer->options.view);
}

static void copy(void *argument)
{
	struct reading *reading = argument;
	struct trace_ring *ring = &reading->tracer->ring;
	struct ptrace_bts_record *records = reading->records;
	struct ds_cursor cursor;

	check(reading->tracer);
	reading->available = ring->used;
	reading->count = ring->used > reading->first ? ring->used - reading->first : 0;
	if (reading->count > reading->most)
		reading->count = reading->most;
	if (!reading->count)
		return;
	cursor = ring_cursor(ring, reading->first);
	for (size_t left = reading->count; left; left--) {
		struct bts_struct record = ds_cursor_read(&cursor);

		*records++ = record_for_reader(&record);
	}
	if (reading->remove)
		ring_drop(ring, reading->count);
}

/* Never more than there were when it began: a task that reads its own trace adds to it. */
static size_t read(struct tracer *tracer, size_t first, struct ptrace_bts_record *records,
		   size_t most, bool remove)
{
	struct reading reading = {.tracer = tracer, .records = records, .remove = remove};
	size_t done = 0;

	do {
		reading.first = remove ? 0 : first + done;
		reading.records = records + done;
		reading.most = most - done < MOST_AT_ONCE ? most - done : MOST_AT_ONCE;
		trace_perform(tracer->context, copy, &reading);
		if (!done && reading.available < most)
			most = reading.available;
		done += reading.count;
	} while (reading.count && done < most);
	return done;
}

size_t trace_read(struct tracer *tracer, struct ptrace_bts_record *records, size_t most)
{
	return read(tracer, 0, records, most, true);
}

size_t trace_peek(struct tracer *tracer, size_t first, struct ptrace_bts_record *records,
		  size_t most)
{
	return read(tracer, first, records, most, false);
}

size_t trace_available(struct tracer *tracer)
{
	struct reading reading = {.tracer = tracer};

	trace_perform(tracer->context, copy, &reading);
	return reading.available;
}

struct getting {
	struct tracer *tracer;
	size_t index;
	struct ptrace_bts_record *record;
	int error;
};

static void get(void *argument)
{
	struct getting *getting = argument;
	struct trace_ring *ring = &getting->tracer->ring;
	struct ds_cursor cursor;
	struct bts_struct record;

	check(getting->tracer);
	if (getting->index >= ring->used) {
		getting->error = -EINVAL;
		return;
	}
	cursor = ring_cursor(ring, ring->used - 1 - getting->index);
	record = ds_cursor_read(&cursor);
	*getting->record = record_for_reader(&record);
}

int trace_get(struct tracer *tracer, size_t index, struct ptrace_bts_record *record)
{
	struct getting getting = {.tracer = tracer, .index = index, .record = record};

	trace_perform(tracer->context, get, &getting);
	return getting.error;
}

static void clear(void *argument)
{
	struct tracer *tracer = argument;

	ring_clear(&tracer->ring);
	tracer->truncated = false;
}

void trace_clear(struct tracer *tracer)
{
	trace_perform(tracer->context, clear, tracer);
}

static void resume(void *argument)
{
	struct tracer *tracer = argument;

	tracer->context->holds -= tracer->held;
	tracer->held = false;
	tracer->full = false;
}

void trace_resume(struct tracer *tracer)
{
	trace_perform(tracer->context, resume, tracer);
	trace_settle();
}

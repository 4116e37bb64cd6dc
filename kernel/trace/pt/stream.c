// SPDX-License-Identifier: MIT
// A ring of chunks between the processor and a reader: both count bytes since the start.
#include "kernel/trace/pt/private.h"

static uint64_t chunk_bytes(const struct insntrace_buffer *buffer)
{
	return PAGE_SIZE << buffer->config.chunk_order;
}

static uint64_t all_bytes(const struct insntrace_buffer *buffer)
{
	return buffer->config.chunks * chunk_bytes(buffer);
}

void stream_begin(struct insntrace_buffer *buffer)
{
	atomic_store(&buffer->handed, 0);
	atomic_store(&buffer->taken, 0);
	atomic_store(&buffer->gap_at, 0);
	buffer->gap = false;
	pt_set_stop(&buffer->trace, buffer->config.chunks - 1);
}

/*
 * The writer is less than one lap ahead of the reader, or has stopped exactly one lap ahead. A
 * concurrent take moves both ends equally, so that the result holds.
 */
void stream_look(struct insntrace_buffer *buffer)
{
	uint64_t taken = atomic_load(&buffer->taken), size = all_bytes(buffer);
	uint64_t ahead = (pt_position(&buffer->trace) + size - taken % size) % size;
	bool full = pt_is_full(&buffer->trace);

	ahead = full && !ahead ? size : ahead;
	if (full) {
		buffer->gap = true;
		atomic_store(&buffer->gap_at, taken + ahead + 1);
	}
	atomic_store(&buffer->handed, taken + ahead);
}

/* One place at a time: where it has one it rests until the reader was told. */
void stream_miss(struct insntrace_buffer *buffer)
{
	if (!buffer->gap_at)
		atomic_store(&buffer->gap_at, buffer->handed + 1);
}

bool stream_at_gap(const struct insntrace_buffer *buffer)
{
	return buffer->gap_at == buffer->taken + 1;
}

size_t stream_find(const struct insntrace_buffer *buffer, const void **from)
{
	uint64_t at = buffer->taken % all_bytes(buffer), size = chunk_bytes(buffer);
	uint64_t found = buffer->handed - buffer->taken, left = size - at % size;

	*from = (const uint8_t *)direct(buffer->chunks[at / size]) + at % size;
	return found < left ? found : left;
}

bool stream_take(struct insntrace_buffer *buffer, size_t bytes)
{
	uint64_t before = buffer->taken / chunk_bytes(buffer);
	bool said = !bytes && stream_at_gap(buffer);

	if (said)
		atomic_store(&buffer->gap_at, 0);
	return said ||
	       (atomic_fetch_add(&buffer->taken, bytes) + bytes) / chunk_bytes(buffer) != before;
}

/*
 * The trace is to stop before the chunk that the reader is in. It goes on after a gap once the
 * reader knows of that: two gaps at a time would be one too many.
 */
void stream_make_room(struct tracer *tracer, void *argument)
{
	struct insntrace_buffer *buffer = (struct insntrace_buffer *)tracer;
	uint64_t chunk = buffer->taken / chunk_bytes(buffer) + buffer->config.chunks - 1;

	(void)argument;
	if (!buffer->gap_at)
		pt_set_stop(&buffer->trace, chunk % buffer->config.chunks);
}

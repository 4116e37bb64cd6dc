// SPDX-License-Identifier: MIT
/*
 * For libFuzzer: bytes as a line, and as frames that have a right checksum and any contents: each a
 * header of struct trace_frame with the payload's size in `sequence`. What is taken is read by a
 * cursor to its end, and followed through the calls of code that is not known.
 */
#include "tools/view/follow.h"
#include "tools/view/view.h"

#include <stdlib.h>
#include <string.h>

static uint64_t sum;

static void take(void *argument, const struct trace_frame *header, const uint8_t *payload,
		 size_t size, const uint8_t *line, size_t line_size)
{
	(void)line;
	trace_take(argument, header, payload, size, line_size);
}

static void branch(void *argument, const struct cursor_item *item, const struct stack *stack,
		   uint64_t position)
{
	(void)argument;
	sum += item->record.from + stack->depth + position;
}

static void read_all(struct trace *trace)
{
	struct filter filter = {.cpu = -1, .to = UINT64_MAX, .depth = UINT32_MAX};
	const struct follow_events events = {.branch = branch};
	char text[256];

	trace_flaw(trace, text, sizeof(text));
	for (size_t i = 0; i < trace->stream_count; i++)
		follow(&filter, trace, &trace->streams[i], &events, NULL);
}

static void take_frames(struct trace *trace, const uint8_t *bytes, size_t size)
{
	struct trace_frame header;

	while (size >= sizeof(header)) {
		size_t payload;

		memcpy(&header, bytes, sizeof(header));
		bytes += sizeof(header);
		size -= sizeof(header);
		payload = header.sequence % (TRACE_PAYLOAD_BYTES + 1);
		payload = payload < size ? payload : size;
		trace_take(trace, &header, bytes, payload, payload);
		bytes += payload;
		size -= payload;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static struct receiver receiver;
	struct trace *trace = allocate(1, sizeof(*trace));

	if (size && bytes[0] & 1) {
		receiver_init(&receiver);
		receiver.frame = take;
		receiver.argument = trace;
		receiver_feed(&receiver, bytes + 1, size - 1);
		receiver_end(&receiver);
	} else if (size) {
		take_frames(trace, bytes + 1, size - 1);
	}
	read_all(trace);
	trace_free(trace);
	return 0;
}

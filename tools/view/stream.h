/* SPDX-License-Identifier: MIT */
/*
 * Receives abi/trace_stream.h from a line that may damage it: tells frames from console text, finds
 * every frame that is damaged or missing, and takes records out of frames.
 */
#pragma once

#include "abi/ptrace_bts.h"
#include "abi/ptrace_pebs.h"
#include "abi/trace_stream.h"

#include <stdbool.h>
#include <stddef.h>

/* A frame on the line: header, payload and CRC, in the longest COBS. */
#define STREAM_FRAME_BYTES (sizeof(struct trace_frame) + TRACE_PAYLOAD_BYTES + 4)
#define STREAM_LINE_BYTES  (STREAM_FRAME_BYTES + STREAM_FRAME_BYTES / 254 + 1)

/* The most records that a frame can have: two bytes each. */
#define STREAM_RECORDS (TRACE_PAYLOAD_BYTES / 2)

struct stream_received {
	uint64_t frames, damaged, missing; /* `missing`: by the sequence numbers */
	uint64_t backward;		   /* frames whose sequence number was there before */
	uint64_t foreign;		   /* frames of a version that is not known */
	uint64_t text_bytes, line_bytes;
};

struct receiver {
	/* A frame that is whole, and the bytes that it was on the line, without the two zeros. */
	void (*frame)(void *argument, const struct trace_frame *header, const uint8_t *payload,
		      size_t size, const uint8_t *line, size_t line_size);
	/* Text of the console; may be NULL. */
	void (*text)(void *argument, const uint8_t *bytes, size_t count);
	void *argument;

	struct stream_received received;
	uint32_t next_sequence;
	size_t used;
	bool overlong; /* too long for a frame: text, or noise */
	uint8_t bytes[STREAM_LINE_BYTES], decoded[STREAM_LINE_BYTES];
};

void receiver_init(struct receiver *receiver);

/* The next bytes of the line, and its end. */
void receiver_feed(struct receiver *receiver, const uint8_t *bytes, size_t count);
void receiver_end(struct receiver *receiver);

/*
 * The records of a frame BRANCHES, oldest first: `*count`, at most STREAM_RECORDS. NULL, or what is
 * wrong: a frame with a right checksum that was made wrongly.
 */
const char *stream_records(const struct trace_frame *header, const uint8_t *payload, size_t size,
			   struct trace_record *records, size_t *count);

/* The bytes of each sample of a frame SAMPLES, its branches included; 0: it was made wrongly. */
size_t stream_sample_size(const struct trace_frame *header, size_t size);

/* CRC32C of records, `sum` being that of those before. */
uint32_t stream_sum(uint32_t sum, const struct trace_record *records, size_t count);

/* The item `tag` of a payload of items, and its size; NULL: there is none. */
const uint8_t *stream_item(const uint8_t *payload, size_t size, unsigned tag, size_t *item_size);

static inline bool record_is_stamp(const struct trace_record *record)
{
	return record->from >= TRACE_STAMP && record->flags & TRACE_STAMP_FLAG;
}

static inline bool record_is_gap(const struct trace_record *record)
{
	return record_is_stamp(record) && record->from == (TRACE_STAMP | PTRACE_BTS_GAP);
}

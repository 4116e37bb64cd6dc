/* SPDX-License-Identifier: MIT */
/*
 * Sends frames of abi/trace_stream.h. Nothing is allocated and no lock is taken: the caller has one
 * struct frame_line a line, one struct frame_block a stream, and uses one of each at a time.
 */
#pragma once

#include "abi/trace_stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CRC32C (Castagnoli; RFC 3720, B.4) of `crc`, 0 to begin with, and of `size` bytes more. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t size);

#define LZ4_TABLE 4096 /* entries, for lz4_pack() */

/* The most bytes that lz4_pack() writes: lz4_Block_format.md. */
#define LZ4_ROOM(size) ((size) + (size) / 255 + 16)

/*
 * Packs at most 64 KiB into one LZ4 block, which has room for LZ4_ROOM(size) bytes; returns its
 * size. `table` needs no contents.
 */
size_t lz4_pack(const void *bytes, size_t size, void *block, uint16_t table[LZ4_TABLE]);

/* Where frames go. `put` sends all of its bytes, none of them twice. */
struct frame_line {
	void (*put)(void *argument, const uint8_t *bytes, size_t count);
	void *argument;
	uint32_t sequence; /* of the next frame */
	bool raw;	   /* TRACE_ENCODING_RAW for all records */
	uint8_t packed[LZ4_ROOM(TRACE_PAYLOAD_BYTES)];
	uint16_t table[LZ4_TABLE];
};

/* Sends one frame: `version`, `sequence` are filled in. `size` is TRACE_PAYLOAD_BYTES at most. */
void frame_send(struct frame_line *line, struct trace_frame header, const void *payload,
		size_t size);

#define FRAME_STAMP_BYTES 1024

/* Records of one stream that are still to be sent. `header.stream` is the owner's to set. */
struct frame_block {
	struct trace_frame header;
	uint64_t at;	  /* the last branch's target */
	uint64_t time;	  /* the last stamp's */
	uint16_t stamped; /* `count` when the last stamp was added */
	size_t used, stamps_used;
	struct trace_total total; /* of what was sent */
	uint8_t bytes[TRACE_PAYLOAD_BYTES], stamps[FRAME_STAMP_BYTES];
};

void frame_block_init(struct frame_block *block, uint32_t stream);

/* Adds a record. False: there is no room; it is added after frame_flush(). */
bool frame_add(struct frame_line *line, struct frame_block *block,
	       const struct trace_record *record);

/* Sends what was added, if anything was or a loss is to be told, from CPU `cpu`, at time `tsc`. */
void frame_flush(struct frame_line *line, struct frame_block *block, unsigned cpu, uint64_t tsc);

/* Adds an item to a payload of `*used` bytes. False, and nothing is added: there is no room. */
bool frame_item(uint8_t payload[TRACE_PAYLOAD_BYTES], size_t *used, unsigned tag, const void *bytes,
		size_t size);

/* SPDX-License-Identifier: MIT */
/*
 * A trace on its way out of the machine: frames on a byte stream. docs/trace-stream.5 is the
 * specification. All numbers are little endian.
 *
 * On the line a frame is a byte 0, the COBS encoding of header, payload and CRC32C of both, and a
 * byte 0; what is between two frames and is no frame is text of the console.
 */
#pragma once

#include <stdint.h>

#define TRACE_STREAM_VERSION 1

/* A payload is at most this long, packed and unpacked. */
#define TRACE_PAYLOAD_BYTES (16u << 10)

enum trace_frame_type {
	TRACE_FRAME_HELLO = 1,	  /* items: what runs, on what; the first frame, and repeated */
	TRACE_FRAME_STREAM = 2,	  /* items: what `stream` is */
	TRACE_FRAME_BRANCHES = 3, /* records of `stream` */
	TRACE_FRAME_MARK = 4,	  /* text: what happens at this place of `stream` */
	TRACE_FRAME_END = 5,	  /* struct trace_total for each stream: the last frame */
	TRACE_FRAME_SAMPLES = 6, /* struct ptrace_pebs_sample of `stream`, each with its branches */
	TRACE_FRAME_PACKETS =
		7,	      /* Processor Trace: bytes of `stream`, from any place of a packet */
	TRACE_FRAME_CODE = 8, /* a uint64_t address and the bytes there: code without a file */
	TRACE_FRAME_SUM = 9,  /* a uint32_t: CRC32C of all records of `stream` */
};

enum trace_encoding {
	TRACE_ENCODING_RAW = 0,	      /* BRANCHES: struct trace_record each; PACKETS: the bytes */
	TRACE_ENCODING_DELTA = 1,     /* BRANCHES: varints */
	TRACE_ENCODING_DELTA_LZ4 = 2, /* those, as one LZ4 block */
};

/* The encoding of SAMPLES: which branches a sample has. */
enum { TRACE_SAMPLES_NEWEST = 0, TRACE_SAMPLES_CALLS = 1 };

struct trace_frame {
	uint8_t type, version, encoding;
	uint8_t cpu;	   /* that sent it: bits 7:0 of its number */
	uint32_t sequence; /* of all frames since boot, from 0; wraps */
	uint32_t stream;   /* a task's id, TRACE_STREAM_CPU | index, with TRACE_STREAM_PT; 0: all */
	uint16_t count;	   /* records; END: totals; else 0 */
	uint16_t stamps;   /* records of `count` that are no branches */
	uint64_t index;	   /* records of this stream that were sent before; PACKETS: bytes */
	/* Records of this stream, lost since its last frame, that no gap counts; PACKETS: 1 if any
	   bytes were; END: tasks and CPUs that could not be traced. */
	uint64_t lost;
	uint64_t tsc; /* when it was sent */
};
_Static_assert(sizeof(struct trace_frame) == 40, "the stream's format");

#define TRACE_STREAM_CPU (1u << 31)
#define TRACE_STREAM_PT	 (1u << 30) /* PACKETS of that CPU; its BRANCHES are another stream */

/*
 * A branch: linear addresses, and bit 4 of `flags` if it was predicted. A stamp: `from` is
 * TRACE_STAMP | a qualifier of abi/ptrace_bts.h, `to` the time-stamp counter (of a gap: how many
 * records are missing, 0 if unknown) and `flags` pid | cpu << 32 | 1 << 63.
 */
struct trace_record {
	uint64_t from, to, flags;
};
_Static_assert(sizeof(struct trace_record) == 24, "the stream's format");

#define TRACE_STAMP	 (~0xfull)
#define TRACE_STAMP_FLAG (1ull << 63)
#define TRACE_PREDICTED	 (1ull << 4)

/* HELLO and STREAM: items one after the other, not aligned; unknown tags are passed over. */
struct trace_item {
	uint16_t tag, size; /* `size` bytes follow */
};
_Static_assert(sizeof(struct trace_item) == 4, "the stream's format");

enum trace_item_tag {
	TRACE_ITEM_NAME = 1,	  /* text: HELLO: the file that runs; STREAM: the task */
	TRACE_ITEM_BUILD_ID = 2,  /* NT_GNU_BUILD_ID of that file */
	TRACE_ITEM_CHECKSUM = 3,  /* uint32_t: CRC32C over the file bytes of its PT_LOAD segments */
	TRACE_ITEM_VERSION = 4,	  /* text */
	TRACE_ITEM_SILICON = 5,	  /* text: native, guest, virtual or none, as the console says */
	TRACE_ITEM_PROCESSOR = 6, /* uint32_t: CPUID.1:EAX */
	TRACE_ITEM_TSC_HZ = 7,	  /* uint64_t */
	TRACE_ITEM_CPUS = 8,	  /* uint32_t */
	TRACE_ITEM_ENTRIES = 10,  /* uint64_t each: where interrupts and system calls enter */
	TRACE_ITEM_PROGRAM = 11,  /* text: STREAM: the program's file */
	TRACE_ITEM_VIEW = 12,	  /* uint32_t: STREAM: PTRACE_BTS_USER and _KERNEL */
	TRACE_ITEM_CR3 = 13,	  /* uint64_t: STREAM: CR3 while the program runs, as in PIP */
};

struct trace_total {
	uint32_t stream, frames; /* BRANCHES of this stream */
	uint64_t records, lost;
};
_Static_assert(sizeof(struct trace_total) == 24, "the stream's format");

/*
 * What a trace can have. END is one frame with a total of each stream that has frames BRANCHES,
 * PACKETS, MARK or SUM; other streams are tasks of which a frame STREAM says what they are.
 */
#define TRACE_CPUS_MOST	   512u
#define TRACE_TOTALS_MOST  (TRACE_PAYLOAD_BYTES / sizeof(struct trace_total))
#define TRACE_STREAMS_MOST 65536u

/* SPDX-License-Identifier: MIT */
/*
 * Intel Processor Trace into branches: what libipt makes of the packets of a stream, as the records
 * that BTS would have written, without their prediction.
 *
 * A branch of which one end was not traced is none of them. Neither is a conditional branch that
 * was taken to the instruction after it: libipt does not tell it from one that was not taken.
 */
#pragma once

#include "tools/view/trace.h"

#include <intel-pt.h>

/* libipt has two: one instruction at a time, or as many as are executed without a choice. */
enum pt_decoder { PT_INSTRUCTIONS, PT_BLOCKS };

/* From record `at` on a program runs while a part is recorded, both of perf.data. */
struct pt_cut {
	size_t at;
	const struct trace_part *part;
	size_t program; /* of `part->programs` */
};

struct pt_decoded {
	struct trace_record *records; /* free() */
	size_t count, room;
	uint64_t instructions;
	uint64_t errors;
	/* The first error: what libipt calls it, and the byte of the stream before which it is. */
	const char *error;
	uint64_t error_at;
	struct pt_cut *cuts; /* free() */
	size_t cut_count;
};

/*
 * Decodes the packets of `stream`, whose code is open. Where packets are missing, lost by the
 * processor or wrong, there is a gap of unknown length, and decoding goes on at the next PSB.
 */
struct pt_decoded pt_decode(const struct trace_stream *stream, enum pt_decoder decoder);

/* Gives all streams of packets their records; an error of decoding is a warning. */
void pt_decode_trace(struct trace *trace);

/* --- Of pt_memory.c: which task of Linux the packets are of
 * ---------------------------------------
 */

struct place {
	const struct trace_part *part, *last_part; /* `part`: that is decoded */
	uint64_t end;				   /* of its packets */
	size_t program;				   /* of part->programs: that runs */
	uint64_t memory;			   /* by the last PIP; 0: not known */
	uint64_t *resume; /* of each stream of the trace: where ring 3 goes on; 0: not known */
};

/* Goes on to the next part if the packets up to `at` have it. */
bool place_moves(struct place *place, uint64_t at);

/* Which program runs, now that ring 3 goes on at `ip`; `tsc` is not after that. 0: not known. */
size_t place_program(const struct place *place, uint64_t ip, uint64_t tsc);

/* Ring 3 is left, and goes on at `ip`, unless a signal or another program is next. */
void place_leaves(struct place *place, uint64_t ip);

/* --- Of pt_memory.c: the memory that packets were recorded in, as libipt reads it
 * -----------------
 */

struct memories;

/* Those of `stream`, whose code is open; never NULL. */
struct memories *memories_open(const struct trace_stream *stream);
void memories_close(struct memories *memories);

/*
 * Before the first PIP the lower half is that of any program of the trace, and where the trace does
 * not say which CR3 a program has, that of the stream's.
 */
struct pt_image *memory_before_pip(const struct memories *memories);

/* While `program` runs, NULL: none that is known. */
struct pt_image *memory_of(struct memories *memories, const struct code *program);

/* While a task of Linux has these files in memory. */
struct pt_image *memory_of_maps(struct memories *memories, const struct maps *maps);

/* A configuration without packets: of perf.data with the errata of the processor that it names. */
struct pt_config pt_config_of(const struct trace *trace);

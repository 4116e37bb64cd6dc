/* SPDX-License-Identifier: MIT */
/*
 * Intel Processor Trace into branches: what libipt makes of the packets of a stream, as the records
 * that BTS would have written, without their prediction.
 *
 * A branch of which one end was not traced is none of them. Neither is a conditional branch that
 * was taken to the instruction after it: libipt does not tell it from one that was not taken.
 */
#ifndef SPOOR_TOOLS_VIEW_PT_H
#define SPOOR_TOOLS_VIEW_PT_H

#include "tools/view/trace.h"

/* libipt has two: one instruction at a time, or as many as are executed without a choice. */
enum pt_decoder { PT_INSTRUCTIONS, PT_BLOCKS };

struct pt_decoded {
	struct trace_record *records; /* free() */
	size_t count, room;
	uint64_t instructions;
	uint64_t errors;
	/* The first error: what libipt calls it, and the byte of the stream before which it is. */
	const char *error;
	uint64_t error_at;
};

/*
 * Decodes the packets of `stream`, whose code is open. Where packets are missing, lost by the
 * processor or wrong, there is a gap of unknown length, and decoding goes on at the next PSB.
 */
struct pt_decoded pt_decode(const struct trace_stream *stream, enum pt_decoder decoder);

/* Gives all streams of packets their records; an error of decoding is a warning. */
void pt_decode_trace(struct trace *trace);

#endif

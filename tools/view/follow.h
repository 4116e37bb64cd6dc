/* SPDX-License-Identifier: MIT */
/*
 * Follows one stream through the calls of its tasks: what calls, html and perfetto have in common.
 * The filter of the command line is applied: function, depth, range, CPU, task.
 */
#ifndef SPOOR_TOOLS_VIEW_FOLLOW_H
#define SPOOR_TOOLS_VIEW_FOLLOW_H

#include "tools/view/filter.h"
#include "tools/view/stack.h"

/*
 * `position` counts the instructions that the stream is known to have executed; each event's is at
 * least that of the one before. enter() and leave() nest strictly. Any of them may be NULL.
 */
struct follow_events {
	/* `depth` is 0 for the outermost frame that is shown. */
	void (*enter)(void *argument, const struct frame *frame, unsigned depth, uint64_t position);
	void (*leave)(void *argument, const struct frame *frame, unsigned depth, uint64_t position);
	void (*gap)(void *argument, uint64_t missing, uint64_t position);
	void (*stamp)(void *argument, const struct cursor_item *item, uint64_t position);
	void (*mark)(void *argument, const struct cursor_item *item, uint64_t position);
	/* After each branch that is shown; `stack` is what it led to. */
	void (*branch)(void *argument, const struct cursor_item *item, const struct stack *stack,
		       uint64_t position);
	void *argument;
};

/* Goes through `stream`; adds to `*counts` (may be NULL). Returns the instructions. */
uint64_t follow(const struct filter *filter, struct trace *trace, struct trace_stream *stream,
		const struct follow_events *events, struct stack_counts *counts);

/* The name of a frame's function; of one without, "0x..." or "[kernel]", "[program]". */
const char *frame_name(const struct frame *frame);

#endif

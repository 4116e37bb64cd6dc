/* SPDX-License-Identifier: MIT */
/*
 * Follows one stream through the calls of its tasks: what calls, html and perfetto have in common.
 * The filter of the command line is applied: function, depth, range, CPU, task.
 */
#pragma once

#include "tools/view/filter.h"
#include "tools/view/stack.h"

/*
 * The instructions from `at` on up to the one at `from` were executed, the first of them as number
 * `position` + 1; the one at `from` only if `executed`. `shown`: in the innermost frame that was
 * entered, which is shown.
 */
struct follow_block {
	const struct space *space;
	uint64_t at, from, position;
	bool executed, shown;
};

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
	void (*block)(void *argument, const struct follow_block *block);
	/*
	 * The kernel sent the task to a function of its program: a signal. Of a trace without
	 * branches into and out of the kernel, the task is in a function to which no branch led.
	 * Before the branches of that function.
	 */
	void (*signal)(void *argument, const struct function *handler, uint64_t position);
	void *argument;
};

/* Goes through `stream`; adds to `*counts` (may be NULL). Returns the instructions. */
uint64_t follow(const struct filter *filter, struct trace *trace, struct trace_stream *stream,
		const struct follow_events *events, struct stack_counts *counts);

/* The name of a frame's function; of one without, "0x..." or "[kernel]", "[program]". */
const char *frame_name(const struct frame *frame);

/* SPDX-License-Identifier: MIT */
/*
 * A trace unit on its way out: a member of the unit's row (kernel/trace/unit.h), in the unit's file
 * of this folder. A function that is NULL has nothing to do. All are called with the line, in task
 * context, interrupts on; so are those of export.c below.
 */
#pragma once

#include "kernel/export/export.h"
#include "lib/frame.h"

/* A unit's trace of a task, or of a CPU. */
struct export_stream {
	struct export_stream *next;
	const struct export_unit *unit;
	const struct task *task; /* NULL: a CPU's */
	enum export_what what;
	struct tracer *tracer; /* attach() sets it */
	uint32_t sum;	       /* of the records, as they were added */
	struct frame_block block;
};

struct export_unit {
	/* Once, before anything is traced; the first unit of the table last. */
	void (*begin)(void);

	/* Gives the stream a tracer, of `task`, or if that is NULL of CPU `cpu`. NULL: the unit has
	   no such streams. A frame STREAM follows. */
	int (*attach)(struct export_stream *stream, struct task *task, unsigned cpu);

	/* After that frame, where attach() failed or is NULL too: tracing begins. */
	void (*start)(void);

	/* Adds what can be read of the stream's tracer. */
	void (*drain)(struct export_stream *stream);

	/* Of the running task: goes on, where the ring has reached its threshold. */
	void (*serve)(struct export_stream *stream);

	/*
	 * The end of a task or, `task` NULL, of the run. All streams pause() before the first unit
	 * finishes, which is the last one of the table, and sends what is left of its streams.
	 */
	void (*pause)(struct export_stream *stream);
	void (*finish)(const struct task *task);
};

/* Adds a record, for drain(). */
void export_add(struct export_stream *stream, const struct trace_record *record);

extern struct frame_line export_line;

struct trace_frame export_header(enum trace_frame_type type, uint32_t stream);

/* TRACE_USER and TRACE_KERNEL, as `trace_view=` says. */
unsigned export_view(enum export_what what);

/* Sends what stream `id` is: a task's, or if that is NULL a CPU's. */
void export_describe(const struct task *task, uint32_t id, enum export_what what, const char *name,
		     uint32_t checksum);

/* Tasks that could not be traced, and CPUs each time: END has the number. */
extern unsigned export_untraced;

/* For the frame END. A unit has to have found room before. */
void export_total(const struct trace_total *total);

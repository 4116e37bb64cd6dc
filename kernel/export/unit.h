/* SPDX-License-Identifier: MIT */
/*
 * A trace unit on its way out: a member of the unit's row (kernel/trace/unit.h), in the unit's file
 * of this folder. A function that is NULL has nothing to do. All are called with the line, in task
 * context, interrupts on; so are those of export.c below.
 */
#pragma once

#include "kernel/export/export.h"
#include "lib/frame.h"

struct export_unit {
	const char *word; /* in `trace_unit=` */

	/* Once, before anything is traced; the first unit of the table last. */
	void (*begin)(void);

	/* Traces `task`, or if that is NULL the CPU of stream `id`. A frame STREAM follows. */
	int (*attach)(struct task *task, enum export_what what, uint32_t id);

	/* After that frame, where attach() failed or is NULL too: tracing begins. */
	void (*start)(void);

	/* The running task's ring has reached its threshold. */
	void (*serve)(const struct task *task);

	/*
	 * The end of `task`, NULL: of the run. All units pause() before the first sends what is
	 * left by finish(), the first unit of the table last.
	 */
	void (*pause)(const struct task *task);
	void (*finish)(const struct task *task);
};

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

/* SPDX-License-Identifier: MIT */
/*
 * Traces leave the machine as frames (abi/trace_stream.h) on a serial line. Off unless
 * the command line has `export=`. Task context, interrupts on, no lock held, unless said otherwise.
 *
 * A program's trace is whole: when its ring reaches the threshold, the program sends what is
 * there before it goes on. A CPU, or a task of the kernel, cannot wait: of it the ring's newest
 * records are sent at the end, or its oldest.
 */
#pragma once

#include "abi/trace_stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task;

/* The values of `trace=`. */
enum export_what { EXPORT_PROGRAMS, EXPORT_TESTS, EXPORT_CPUS };

/* `trace_view=`; by default the kernel's branches of what runs there, ring 3's of a program. */
enum export_view { EXPORT_VIEW_DEFAULT, EXPORT_VIEW_USER, EXPORT_VIEW_KERNEL, EXPORT_VIEW_BOTH };

/* `trace_mode=`: all of a program; the newest, or the oldest, that one ring holds. */
enum export_mode { EXPORT_WHOLE, EXPORT_WRAP, EXPORT_STOP };

extern bool export_on; /* read-only */

/*
 * The items of frame HELLO, and of a frame STREAM of a task whose program `name` runs with `root`
 * in CR3 (docs/trace-stream.5). They return their bytes. Whether traces leave the machine or not;
 * any task context.
 */
size_t export_machine(uint8_t items[TRACE_PAYLOAD_BYTES]);
size_t export_program(uint8_t items[TRACE_PAYLOAD_BYTES], const char *name, uint32_t checksum,
		      uint64_t root);

/* Opens the line that `export=` names, if any. NULL, or what is wrong with it. Boot. */
const char *export_init(void);

/* The first task, before anything else is traced: says what runs, and begins to trace CPUs. */
void export_begin(void);

/* Whether `trace=` chose this. Any context. */
bool export_wants(enum export_what what);

/*
 * Traces `task`, which the caller holds and which does not run yet, as `name`; `checksum` is that
 * of its program's segments, 0: of none. Where it cannot, the console and the frame END say so.
 */
void export_task(struct task *task, enum export_what what, const char *name, uint32_t checksum);

/* The running task's: sends what is there if its ring has come to the threshold. */
void export_serve(void);

/* Sends the rest of `task`, which is the running one or has ended, and forgets it. */
void export_task_end(struct task *task);

/* The end of the run: sends the rest of all, and the totals. */
void export_end(void);

/* SPDX-License-Identifier: MIT */
/*
 * Processor Trace on its way out: what every CPU records while anything is traced, a stream each.
 * The packets are sent when nothing is traced any more; a buffer that is full until then keeps the
 * oldest or, where `trace_mode=wrap`, the newest. Task context, interrupts on, with the line.
 */
#ifndef SPOOR_KERNEL_EXPORT_PACKETS_H
#define SPOOR_KERNEL_EXPORT_PACKETS_H

#include "lib/frame.h"

/*
 * Takes a buffer for each CPU, and sends what the streams are. `view`: PTRACE_BTS_USER and _KERNEL.
 * Where it cannot be, a line on the console says so, and the functions below do nothing.
 */
void packets_begin(struct frame_line *line, uint32_t view);

/*
 * Something is traced: the first of them starts all CPUs. The last one to end stops and sends. From
 * start to sending no program gets the CR3 of one that ended, if programs are traced.
 */
void packets_start(void);
void packets_stop(struct frame_line *line);

/* Stops, gives the buffers back; returns how many of `totals` it wrote, one a CPU. */
unsigned packets_end(struct frame_line *line, struct trace_total *totals);

#endif

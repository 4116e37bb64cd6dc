/* SPDX-License-Identifier: MIT */
/*
 * What the rest of the kernel does to the trace units of a CPU, whichever there are: pause them
 * where their records would belong to no task, and stop them at the end of a run.
 */
#ifndef SPOOR_KERNEL_TRACE_PAUSE_H
#define SPOOR_KERNEL_TRACE_PAUSE_H

#include "kernel/trace/unit.h"

/* What trace_pause_cpu() paused. */
struct trace_paused {
	uint64_t unit[TRACE_UNITS];
};

/*
 * Stops recording on this CPU until trace_resume_cpu() is given what this returned. Pairs nest, in
 * any context, NMI included, as long as each pair is closed before the pair that it interrupted
 * goes on, and no task switch lies between.
 */
struct trace_paused trace_pause_cpu(void);
void trace_resume_cpu(struct trace_paused paused);

/*
 * Stops recording on this CPU until the machine is reset. What was recorded can still be read. Any
 * context; takes no lock.
 */
void trace_stop_cpu(void);

#endif

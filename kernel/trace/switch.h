/* SPDX-License-Identifier: MIT */
/*
 * The two ends of a context switch, for the scheduler, with IF = 0. `cpu->recording` is true from
 * trace_arrive(), if the task or the CPU has a tracer, to the next one. Where it is false, and
 * task->trace is NULL, neither is called.
 */
#ifndef SPOOR_KERNEL_TRACE_SWITCH_H
#define SPOOR_KERNEL_TRACE_SWITCH_H

#include <stdint.h>

struct cpu;
struct task;

/* Recording is on: stops it, and hands over what was recorded. */
void trace_depart(struct cpu *cpu);

/*
 * Starts recording what cpu->current's tracers and this CPU's wish, if anything. Takes context
 * locks only.
 */
void trace_arrive(struct cpu *cpu);

/*
 * Ring 3 of cpu->current has raised an exception at `rip`, which is in the kernel's half: shows its
 * tracers the branch that went there. Transitions go there too, but none of them leaves RIP there
 * at CPL 3, so that no tracer learns an address that it does not find in RIP. Recording is on;
 * IF = 0.
 */
void trace_user_fault(struct cpu *cpu, uint64_t rip);

/*
 * The task is at its end: nothing of it is recorded any more; its tracers keep what they have. The
 * task itself, or one that does not run and never will. Task context, no lock held.
 */
void trace_task_ended(struct task *task);

#endif

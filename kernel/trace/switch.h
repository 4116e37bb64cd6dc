/* SPDX-License-Identifier: MIT */
/*
 * The two ends of a context switch, for the scheduler, with IF = 0. On a CPU where nothing is
 * recorded (cpu->ds.loaded is NULL) and nothing is to be (task->trace is NULL) neither is called.
 */
#ifndef SPOOR_KERNEL_TRACE_SWITCH_H
#define SPOOR_KERNEL_TRACE_SWITCH_H

struct cpu;
struct task;

/* Recording is on: stops it, and hands over what was recorded. Takes context locks only. */
void trace_depart(struct cpu *cpu);

/* Starts recording what cpu->current's tracers and this CPU's wish, if anything. */
void trace_arrive(struct cpu *cpu);

/*
 * The task is at its end: nothing of it is recorded any more; its tracers keep what they have. The
 * task itself, or one that does not run and never will. Task context, no lock held.
 */
void trace_task_ended(struct task *task);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Tracing on a CPU, for the rest of the kernel: at boot, where it is paused, at a switch of tasks,
 * at the end of a run.
 */
#pragma once

#include "kernel/trace/unit.h"

#include <stdbool.h>
#include <stdint.h>

struct cpu;
struct task;

/* Turns off and notes the units that firmware left on. Boot, once exceptions can be caught. */
void trace_quiesce(void);

/*
 * Prints the banner's lines on the trace units: what is enumerated, what works, what firmware had
 * left on. `silicon` says whose they are, `mark` is what follows it. Boot, once.
 */
void trace_print_units(const char *silicon, const char *mark);

/* The bits set in IA32_DEBUGCTL of any other CPU when it started; bit 63: TraceEn of Intel PT. */
uint64_t trace_found_at_start(void);

/* Probes the trace units and the counters, gives this CPU its staging, takes the PMI. Boot. */
void trace_init(void);

/*
 * The same for another CPU. False: it lacks a unit that the boot CPU has, or has it of another
 * kind. No unit is used there, and the CPU must not be.
 */
bool trace_init_cpu(void);

/*
 * kinds.c: what the units have, read on every CPU. Notes the kind of this CPU, which has `caps`.
 * False: it has not all that the boot CPU has, which asked first. Boot.
 */
struct ds_caps;
bool kind_note(struct cpu *cpu, const struct ds_caps *caps);

/* Prints the banner's line of each kind, where there are several. Boot. */
void kinds_print(void);

/* The first kind that has a unit (unit.h) which the boot CPU lacks; 0: none has. */
unsigned kind_with(unsigned unit);

/* How many CPUs are not used because their units are not like the boot CPU's. Any context. */
unsigned kinds_left_out(void);

/* The APIC ids of these, as 1,3, as far as there is room. */
enum { KINDS_LEFT_OUT = 32 };
extern char kinds_named_left_out[KINDS_LEFT_OUT];

/* The units of a CPU that trace_pause_cpu() paused. */
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
 * Waits while `condition` is true. This CPU records nothing until it is false: with interrupts off
 * the branches of a loop would overflow the buffer and hide real ones. Any context.
 */
#define TRACE_PAUSED_WHILE(condition)                                                              \
	do {                                                                                       \
		struct trace_paused paused_ = trace_pause_cpu();                                   \
                                                                                                   \
		while (condition)                                                                  \
			__asm__ volatile("pause");                                                 \
		trace_resume_cpu(paused_);                                                         \
	} while (0)

/*
 * Stops recording on this CPU until the machine is reset. What was recorded can still be read. Any
 * context; takes no lock.
 */
void trace_stop_cpu(void);

/* Units and counters of any CPU that is used stop once 0 is in these, in this order; 0: the end. */
enum { TRACE_STOP_MSRS = TRACE_UNITS + 2 };
void trace_stop_msrs(uint32_t msrs[TRACE_STOP_MSRS]);

/*
 * The two ends of a context switch, for the scheduler, with IF = 0. `cpu->recording` is true from
 * trace_arrive(), if the task or the CPU has a tracer, to the next one. Where it is false, and
 * task->trace is NULL, neither is called.
 */

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

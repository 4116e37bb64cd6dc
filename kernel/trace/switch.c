// SPDX-License-Identifier: MIT
// Where recording stops and starts.
#include "kernel/trace/cpu.h"

#include "kernel/sched/task.h"
#include "kernel/trace/context.h"

/*
 * While `context->cpu` is this CPU nobody else touches the context: an operation on it is done
 * here (operation.c). The lock keeps away an operation that is under way.
 */
static inline struct trace_context *take_context(struct cpu *cpu, struct trace_context *context)
{
	spin_acquire(&context->lock);
	atomic_store_explicit(&context->cpu, cpu, memory_order_relaxed);
	spin_release(&context->lock);
	return context;
}

static void put_context(struct trace_context *context)
{
	if (context)
		atomic_store_explicit(&context->cpu, NULL, memory_order_release);
}

/* Inline, and expected: a call or a jump before the WRMSR that stops a trace is a record in it. */
static inline void stop_recording(struct cpu *cpu, bool departs)
{
	unsigned arrived = cpu->trace->arrived;

	for (unsigned left = arrived; __builtin_expect(left, 1); left &= left - 1)
		trace_units[__builtin_ctz(left)]->stop(cpu);
	cpu->trace->departs = departs;
	for (unsigned left = arrived; left; left &= left - 1)
		trace_units[__builtin_ctz(left)]->depart(cpu);
	put_context(cpu->trace->running);
	put_context(cpu->trace->own);
	cpu->trace->running = cpu->trace->own = NULL;
}

void trace_rest(struct cpu *cpu)
{
	stop_recording(cpu, false);
}

void trace_depart(struct cpu *cpu)
{
	stop_recording(cpu, true);
}

void trace_arrive(struct cpu *cpu)
{
	struct trace_cpu *trace = cpu->trace;
	unsigned due = trace->arrived, last;
	bool frozen = trace_is_frozen(cpu);

	if (cpu->current->trace && !frozen)
		trace->running = take_context(cpu, cpu->current->trace);
	/* Read without a lock: a CPU that gets a tracer looks again (trace_settle()). */
	if (trace->context.references > 1 && !frozen)
		trace->own = take_context(cpu, &trace->context);
	cpu->recording = trace->running || trace->own;
	trace->arrived =
		(trace->running ? trace->running->units : 0) | (trace->own ? trace->own->units : 0);
	for (due |= trace->arrived; due; due &= ~(1u << last)) {
		last = 31 - (unsigned)__builtin_clz(due);
		trace_units[last]->arrive(cpu);
	}
	if (trace_is_frozen(cpu)) /* which an NMI may have set */
		trace_freeze_units(cpu);
}

void trace_user_fault(struct cpu *cpu, uint64_t rip)
{
	cpu->trace->fault = rip;
	trace_rest(cpu);
	cpu->trace->fault = 0;
	trace_arrive(cpu);
}

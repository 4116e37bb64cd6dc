// SPDX-License-Identifier: MIT
// Operations on a context, wherever it is, while nothing is recorded for it.
#include "drivers/apic/lapic.h"
#include "kernel/sched/task.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/context.h"
#include "kernel/trace/cpu.h"
#include "kernel/trap/trap.h"

struct operation {
	struct trace_context *context;
	struct tracer *tracer;
	trace_operation *function;
	void *argument;
	bool done;
};

/* Runs the operation if no CPU records the context. Otherwise the caller tries where it is now. */
static void perform_at_rest(struct operation *operation)
{
	struct trace_context *context = operation->context;

	spin_acquire(&context->lock);
	if (!atomic_load(&context->cpu)) {
		operation->function(operation->tracer, operation->argument);
		operation->done = true;
	}
	spin_release(&context->lock);
}

/*
 * Runs on the CPU that last recorded the context. All its tracing is paused: with IF = 0 the
 * operation could have more branches than the staging buffer has room for.
 */
static void perform_here(void *argument)
{
	struct operation *operation = argument;
	struct cpu *cpu = this_cpu();

	if (atomic_load(&operation->context->cpu) == cpu) {
		trace_rest(cpu);
		perform_at_rest(operation);
		trace_arrive(cpu);
	} else {
		struct trace_paused paused = trace_pause_cpu();

		perform_at_rest(operation);
		trace_resume_cpu(paused);
	}
}

void trace_perform(struct tracer *tracer, trace_operation *function, void *argument)
{
	struct operation operation = {tracer->context, tracer, function, argument, false};

	while (!operation.done) {
		struct cpu *cpu = atomic_load(&operation.context->cpu);

		smp_call(cpu ? cpu->index : this_cpu()->index, perform_here, &operation);
	}
}

static void settle(void *frame)
{
	struct cpu *cpu = this_cpu();
	bool has_tracers = cpu->current->trace || cpu->trace->context.references > 1;

	if (cpu->recording)
		trace_rest(cpu);
	if (cpu->trace->queue)
		freeze_on(PTRACE_FREEZE_OVERFLOW, frame);
	if (cpu->recording || (has_tracers && !ds_is_lent(&cpu->trace->ds)))
		trace_arrive(cpu);
	trace_notify_owners(cpu);
	freeze_rest(cpu);
	freeze_say_all();
}

void trace_settle(void)
{
	smp_call_all(settle, NULL);
}

/* The work that a performance-monitoring interrupt leaves to one of a lower priority. */
static void work_interrupt(struct trap_frame *frame)
{
	lapic_eoi();
	settle(frame);
}

void trace_init_work(void)
{
	interrupt_set_handler(VECTOR_TRACE_WORK, work_interrupt);
}

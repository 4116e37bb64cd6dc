// SPDX-License-Identifier: MIT
// What is done to a context while nothing is recorded for it, wherever it is.
#include "kernel/sched/task.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/context.h"
#include "kernel/trace/switch.h"

struct operation {
	struct trace_context *context;
	void (*function)(void *argument);
	void *argument;
	bool done;
};

/*
 * On the CPU that recorded it a moment ago, IF = 0. It may have moved on, or come back to rest.
 * What is done here is not recorded for others either: it may have more branches than a staging has
 * room for while interrupts are off.
 */
static void try(void *argument)
{
	struct operation *operation = argument;
	struct trace_context *context = operation->context;
	struct cpu *cpu = this_cpu();
	bool here = atomic_load(&context->cpu) == cpu;
	uint64_t saved = 0;

	if (here)
		trace_rest(cpu);
	else
		saved = ds_pause();
	spin_lock(&context->lock);
	if (!atomic_load(&context->cpu)) {
		operation->function(operation->argument);
		operation->done = true;
	}
	spin_unlock(&context->lock, 0);
	if (here)
		trace_arrive(cpu);
	else
		ds_resume(saved);
}

void trace_perform(struct trace_context *context, void (*function)(void *argument), void *argument)
{
	struct operation operation = {context, function, argument, false};

	while (!operation.done) {
		struct cpu *cpu = atomic_load(&context->cpu);

		smp_call(cpu ? cpu->index : this_cpu()->index, try, &operation);
	}
}

static void settle(void *argument)
{
	struct cpu *cpu = this_cpu();

	(void)argument;
	if (ds_is_lent(&cpu->ds))
		return;
	if (cpu->ds.loaded || cpu->current->trace || cpu->trace->context.tracers) {
		trace_rest(cpu);
		trace_arrive(cpu);
	}
	trace_serve_queue(cpu);
}

void trace_settle(void)
{
	smp_call_all(settle, NULL);
}

void trace_unseen(void (*function)(void *argument), void *argument)
{
	struct cpu *cpu = this_cpu();
	bool recorded = cpu->ds.loaded && !ds_is_lent(&cpu->ds);

	if (recorded)
		trace_rest(cpu);
	function(argument);
	if (recorded)
		trace_arrive(cpu);
}

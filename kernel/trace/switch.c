// SPDX-License-Identifier: MIT
#include "kernel/trace/due.h"

#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/sched/task.h"

void trace_depart(struct cpu *cpu, struct trace_context *context)
{
	ds_switch_out(&cpu->ds);
	cpu->departed = context;
}

/*
 * The departing context may have reached its threshold with the interrupt still on its way: it
 * would look at the next task's area. The driver looks itself, with TR clear, and says so here.
 */
void trace_arrive(struct cpu *cpu, struct trace_context *context)
{
	struct ds_lease *lease = context ? &context->lease : NULL;

	if (ds_switch_needed(&cpu->ds, lease) && ds_switch_in(&cpu->ds, lease))
		trace_set_due(cpu, cpu->departed);
}

void trace_task_ended(struct task *task)
{
	uint64_t flags = interrupts_save();
	struct cpu *cpu = this_cpu();
	struct trace_context *context = task->trace;

	if (context) {
		if (cpu->ds.loaded == &context->lease) {
			trace_depart(cpu, context);
			trace_arrive(cpu, NULL);
		}
		task->trace = NULL;
		context->task = NULL;
	}
	interrupts_restore(flags);
}

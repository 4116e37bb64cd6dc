// SPDX-License-Identifier: MIT
// Who traces whom.
#include "kernel/mm/area.h"
#include "kernel/sched/task.h"
#include "kernel/trace/context.h"
#include "kernel/trace/switch.h"

static struct spinlock attachments; /* of every task's `trace` and `trace_over`, of references */

/* One more attachment to the task's context, which is `fresh` if it has none. NULL: it ended. */
static struct trace_context *hold(struct task *task, struct trace_context *fresh)
{
	uint64_t flags = spin_lock(&attachments);

	if (!task->trace_over && !task->trace) {
		fresh->task = task;
		task->trace = fresh;
	}
	if (task->trace)
		task->trace->references++;
	fresh = task->trace;
	spin_unlock(&attachments, flags);
	return fresh;
}

static void hold_cpu(struct trace_context *context)
{
	uint64_t flags = spin_lock(&attachments);

	context->references++;
	spin_unlock(&attachments, flags);
}

/* One attachment less. True: it was the last, and the scheduler finds the context no more. */
static bool let_go(struct trace_context *context)
{
	uint64_t flags = spin_lock(&attachments);
	bool last = --context->references == 0;

	if (last && context->task)
		context->task->trace = NULL;
	spin_unlock(&attachments, flags);
	return last;
}

static void link(void *argument)
{
	struct tracer *tracer = argument;

	tracer->next = tracer->context->tracers;
	tracer->context->tracers = tracer;
}

static void unlink(void *argument)
{
	struct tracer *tracer = argument, **at = &tracer->context->tracers;

	while (*at != tracer)
		at = &(*at)->next;
	*at = tracer->next;
	tracer->context = NULL;
}

static void start(struct trace_context *context, struct tracer *tracer)
{
	tracer->context = context;
	trace_perform(context, link, tracer);
	trace_settle();
}

int trace_attach(struct task *task, const struct trace_options *options, struct tracer **result)
{
	struct trace_context *fresh, *context;
	struct tracer *tracer = NULL;
	int error = tracer_create(options, &tracer);

	if (error)
		return error;
	fresh = area_alloc(1, VM_WRITE);
	context = fresh ? hold(task, fresh) : NULL;
	if (fresh && context != fresh)
		area_free(fresh, 1);
	if (!context) {
		tracer_free(tracer);
		return fresh ? -ESRCH : -ENOMEM;
	}
	start(context, tracer);
	*result = tracer;
	return 0;
}

int trace_attach_cpu(unsigned index, const struct trace_options *options, struct tracer **result)
{
	struct trace_context *context;
	struct tracer *tracer = NULL;
	int error = tracer_create(options, &tracer);

	if (error)
		return error;
	if (index >= cpu_count() || !atomic_load(&cpu_by_index(index)->online)) {
		tracer_free(tracer);
		return -EINVAL;
	}
	context = &cpu_by_index(index)->trace->context;
	hold_cpu(context);
	start(context, tracer);
	*result = tracer;
	return 0;
}

int trace_attach_all_cpus(const struct trace_options *options, struct tracer **tracers)
{
	for (unsigned i = 0; i < cpu_count(); i++) {
		int error = trace_attach_cpu(i, options, &tracers[i]);

		if (!error)
			continue;
		while (i)
			trace_detach(tracers[--i]);
		return error;
	}
	return 0;
}

bool trace_detach(struct tracer *tracer)
{
	struct trace_context *context = tracer->context;
	bool last;

	trace_perform(context, unlink, tracer);
	last = let_go(context);
	trace_settle();
	if (last)
		area_free(context, 1);
	return tracer_free(tracer);
}

void trace_task_ended(struct task *task)
{
	uint64_t flags = spin_lock(&attachments);
	struct trace_context *context = task->trace;
	struct cpu *cpu = this_cpu();

	task->trace_over = true;
	if (context) {
		bool here = task == cpu->current && cpu->ds.loaded;

		if (here)
			trace_depart(cpu);
		context->task = NULL;
		task->trace = NULL;
		if (here)
			trace_arrive(cpu);
	}
	spin_unlock(&attachments, flags);
}

// SPDX-License-Identifier: MIT
// Tracers that begin, are read, and say how they are.
#include "kernel/sched/task.h"
#include "kernel/trace/lbr/branch_stack.h"
#include "kernel/trace/pebs/private.h"
#include "lib/format.h"
#include "lib/string.h"

static void begin_recording(struct tracer *tracer, void *argument)
{
	(void)argument;
	pebs_of(tracer)->admitted = true;
}

/*
 * The stack records what a tracer of the newest branches would have, so that its rules hold: who
 * may want which kinds, what a switch saves, what is emptied. Its page is charged with the samples.
 */
static int attach_stack(struct task *task, unsigned index, struct pebs_tracer *tracer,
			const struct pebs_options *options)
{
	const struct branch_stack_options wish = {
		.flags = tracer->options.view * PTRACE_LBR_USER |
			 (options->call_stack ? PTRACE_LBR_CALL_STACK : 0),
		.kinds = options->kinds,
		.entries = tracer->options.branches,
		.privileged = options->privileged,
		.freezes = options->interrupt,
		.replaces = options->replaces ? options->replaces->brings : NULL,
	};
	int error;

	if (!wish.entries)
		return 0;
	error = branch_stack_attach(task, index, &wish, &tracer->base.brings);
	if (error == -EBUSY && options->holder)
		pebs_copy_name(options->holder, "tracer of the newest branches");
	return error;
}

/* It records once it has been found a counter, for a task on ALL_CPUS, where that may run. */
int pebs_attach(struct task *task, unsigned cpu, const struct pebs_options *options,
		struct tracer **result)
{
	struct pebs_tracer *tracer = NULL;
	int error = pebs_create(options, &tracer);

	if (error)
		return error;
	if (task)
		format(tracer->name, sizeof(tracer->name), "tracer of task %u", task->pid);
	else
		format(tracer->name, sizeof(tracer->name), "tracer of CPU %u", cpu);
	error = attach_stack(task, cpu, tracer, options);
	if (error) {
		pebs_free(&tracer->base);
		return error;
	}
	error = trace_link(task, cpu, &tracer->base);
	if (error)
		return error;
	error = pebs_admit(tracer, task ? ALL_CPUS : cpu, options);
	if (error) {
		trace_detach(&tracer->base);
		return error;
	}
	trace_perform(&tracer->base, begin_recording, NULL);
	trace_settle();
	*result = &tracer->base;
	return 0;
}

/* --- Reading --- */

struct reading {
	unsigned char *samples;
	size_t from, most, count;
	bool remove;
};

static void copy_samples(struct tracer *of, void *argument)
{
	struct reading *reading = argument;
	struct pebs_tracer *tracer = pebs_of(of);
	size_t left = tracer->used > reading->from ? tracer->used - reading->from : 0;

	reading->count = left < reading->most ? left : reading->most;
	for (size_t i = 0; reading->samples && i < reading->count; i++)
		memcpy(reading->samples + i * tracer->unit, pebs_slot(tracer, reading->from + i),
		       tracer->unit);
	if (!reading->remove)
		return;
	tracer->first = (tracer->first + reading->count) % tracer->slots;
	tracer->used -= reading->count;
}

size_t pebs_read(struct tracer *tracer, void *samples, size_t most)
{
	struct reading reading = {.samples = samples, .most = most, .remove = true};

	trace_perform(tracer, copy_samples, &reading);
	return reading.count;
}

size_t pebs_peek(struct tracer *tracer, size_t from, void *samples, size_t most)
{
	struct reading reading = {.samples = samples, .from = from, .most = most};

	trace_perform(tracer, copy_samples, &reading);
	return reading.count;
}

/* --- Status --- */

static void find_status(struct tracer *asked, void *argument)
{
	const struct pebs_tracer *tracer = pebs_of(asked);
	struct pebs_status *status = argument;

	*status = (struct pebs_status){
		.view = tracer->options.view,
		.overflow = tracer->options.overflow,
		.size = tracer->options.size,
		.sample_size = tracer->unit,
		.branches = tracer->options.branches,
		.available = tracer->used,
		.events = tracer->events,
		.lost = tracer->lost,
		.truncated = tracer->truncated,
		.blocked = tracer->blocked,
		.held = tracer->base.held,
		.full = tracer->full,
	};
	if (tracer->blocked)
		memcpy(status->holder, tracer->holder, sizeof(tracer->holder));
}

void pebs_status(struct tracer *tracer, struct pebs_status *status)
{
	trace_perform(tracer, find_status, status);
}

size_t pebs_available(struct tracer *tracer)
{
	struct pebs_status status;

	pebs_status(tracer, &status);
	return status.available;
}

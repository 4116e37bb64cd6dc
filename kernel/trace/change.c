// SPDX-License-Identifier: MIT
#include "kernel/sched/task.h"
#include "kernel/trace/context.h"

struct change {
	struct tracer *tracer;
	struct trace_options options;
};

static void stop_holding(struct tracer *tracer)
{
	tracer->context->holds -= tracer->held;
	tracer->held = false;
}

static void change(void *argument)
{
	struct change *change = argument;
	struct tracer *tracer = change->tracer;
	const struct trace_options *options = &change->options;

	ring_check(&tracer->ring, tracer->options.view);
	if (options->paused && tracer->context->task)
		tracer_stamp(tracer, PTRACE_BTS_TASK_DEPARTS, tracer->context->task->pid,
			     this_cpu()->index);
	if (options->overflow != TRACE_SIGNAL || options->paused)
		stop_holding(tracer);
	tracer->full = options->overflow == TRACE_STOP && tracer->full;
	tracer->options = *options;
	ds_set_filter(&tracer->lease, trace_hardware_view(options->view));
}

int trace_change(struct tracer *tracer, const struct trace_options *options)
{
	struct change work = {.tracer = tracer, .options = *options};
	int error;

	work.options.size = tracer->options.size;
	error = tracer_check(&work.options);
	if (error)
		return error;
	work.options.overflowed = tracer->options.overflowed;
	work.options.argument = tracer->options.argument;
	work.options.account = tracer->options.account;
	tracer_settle_options(&work.options, work.options.size);
	trace_perform(tracer->context, change, &work);
	trace_settle();
	return 0;
}

struct skip {
	struct tracer *tracer;
	size_t count;
};

static void skip(void *argument)
{
	struct skip *skip = argument;
	struct trace_ring *ring = &skip->tracer->ring;

	ring_check(ring, skip->tracer->options.view);
	ring_drop(ring, skip->count < ring->used ? skip->count : ring->used);
}

void trace_skip(struct tracer *tracer, size_t count)
{
	struct skip work = {tracer, count};

	trace_perform(tracer->context, skip, &work);
}

bool trace_is_held(const struct tracer *tracer)
{
	uint64_t flags = spin_lock(&tracer->context->lock);
	bool held = tracer->held;

	spin_unlock(&tracer->context->lock, flags);
	return held;
}

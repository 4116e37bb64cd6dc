// SPDX-License-Identifier: MIT
#include "kernel/sched/task.h"
#include "kernel/trace/context.h"

struct change {
	struct tracer *tracer;
	struct trace_options options;
	struct tracer *other; /* whose memory it is to have; NULL: it keeps its own */
};

/* TRACE_SIGNAL needs room beyond the ring's size, which the others must not have. */
static bool needs_other_memory(const struct tracer *tracer, const struct trace_options *options)
{
	return (tracer->options.overflow == TRACE_SIGNAL) != (options->overflow == TRACE_SIGNAL);
}

static void move_records(struct trace_ring *to, const struct trace_ring *from)
{
	struct ds_cursor cursor = ring_cursor(from, 0);

	to->next = ring_first(from);
	to->cursor = from->cursor;
	to->unknown = from->unknown;
	for (size_t i = 0; i < from->used; i++) {
		struct bts_struct record = ds_cursor_read(&cursor);

		ring_put(to, &record, true);
	}
	to->lost += from->lost;
	to->wrapped = from->wrapped;
}

static void swap_memory(struct tracer *a, struct tracer *b)
{
	struct trace_ring ring = a->ring;
	struct ds_lease lease = a->lease;
	size_t charged = a->charged;

	a->ring = b->ring;
	a->lease = b->lease;
	a->charged = b->charged;
	b->ring = ring;
	b->lease = lease;
	b->charged = charged;
	b->options = a->options;
}

static void change(void *argument)
{
	struct change *change = argument;
	struct tracer *tracer = change->tracer;
	const struct trace_options *options = &change->options;

	if (options->paused && tracer->context->task)
		tracer_stamp(tracer, PTRACE_BTS_TASK_DEPARTS, tracer->context->task->pid,
			     this_cpu()->index);
	if (options->overflow != TRACE_SIGNAL || options->paused)
		tracer->held = false;
	if (change->other) {
		move_records(&change->other->ring, &tracer->ring);
		swap_memory(tracer, change->other);
	}
	tracer->full &= options->overflow == TRACE_STOP;
	tracer->options = *options;
	tracer->full |= tracer_is_stopped(tracer);
}

int trace_change(struct tracer *tracer, const struct trace_options *options)
{
	struct change work = {.tracer = tracer, .options = *options};
	int error;

	work.options.size = tracer->options.size;
	work.options.account = tracer->options.account;
	work.options.cut_size = false;
	work.options.overflowed = tracer->options.overflowed;
	work.options.argument = tracer->options.argument;
	work.options.replaces = tracer;
	error = needs_other_memory(tracer, options) ? tracer_create(&work.options, &work.other)
						    : tracer_check(&work.options);
	if (error)
		return error;
	work.options.replaces = NULL;
	tracer_settle_options(&work.options, work.options.size);
	trace_perform(tracer->context, change, &work);
	trace_settle();
	tracer_free(work.other);
	return 0;
}

bool trace_is_held(const struct tracer *tracer)
{
	uint64_t flags = spin_lock(&tracer->context->lock);
	bool held = tracer->held;

	spin_unlock(&tracer->context->lock, flags);
	return held;
}

// SPDX-License-Identifier: MIT
// Tracers that begin, change while they are attached, and say how they are.
#include "kernel/sched/task.h"
#include "kernel/trace/bts/private.h"

int bts_attach(struct task *task, unsigned cpu, const struct bts_options *options,
	       struct tracer **result)
{
	struct bts_tracer *tracer = NULL;
	int error = tracer_create(options, &tracer);

	if (!error)
		error = trace_link(task, cpu, &tracer->base);
	if (!error)
		*result = &tracer->base;
	return error;
}

/* --- Changes --- */

struct change {
	struct bts_options options;
	struct bts_tracer *other; /* whose memory it is to have; NULL: it keeps its own */
};

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
	to->lost_more = from->lost_more;
}

static void swap_memory(struct bts_tracer *a, struct bts_tracer *b)
{
	struct bts_tracer was = *a;

	a->ring = b->ring;
	a->lease = b->lease;
	a->base.charged = b->base.charged;
	b->ring = was.ring;
	b->lease = was.lease;
	b->base.charged = was.base.charged;
	b->options = was.options;
}

static void change_options(struct tracer *changed, void *argument)
{
	struct change *change = argument;
	struct bts_tracer *tracer = bts_of(changed);
	const struct bts_options *options = &change->options;

	if (options->paused && tracer->base.context->task)
		tracer_stamp(tracer, PTRACE_BTS_TASK_DEPARTS, tracer->base.context->task->pid,
			     this_cpu()->index);
	if (options->overflow != TRACE_SIGNAL || options->paused)
		tracer->base.held = false;
	if (change->other) {
		move_records(&change->other->ring, &tracer->ring);
		swap_memory(tracer, change->other);
	}
	tracer->full &= options->overflow == TRACE_STOP;
	tracer->options = *options;
	tracer->full |= tracer_is_stopped(tracer);
	tracer->stays_full = tracer->full;
	tracer_put_gap(tracer, 0);
}

int bts_change(struct tracer *changed, const struct bts_options *options)
{
	struct bts_tracer *tracer = bts_of(changed);
	struct change work = {.options = *options};
	int error;

	work.options.size = tracer->options.size;
	work.options.account = tracer->options.account;
	work.options.cut_size = false;
	work.options.overflowed = tracer->options.overflowed;
	work.options.argument = tracer->options.argument;
	work.options.replaces = changed;
	/* TRACE_SIGNAL needs room beyond the ring's size, which the others must not have. */
	error = (tracer->options.overflow == TRACE_SIGNAL) == (options->overflow == TRACE_SIGNAL)
			? tracer_check(&work.options)
			: tracer_create(&work.options, &work.other);
	if (error)
		return error;
	work.options.replaces = NULL;
	tracer_settle_options(&work.options, work.options.size);
	trace_perform(changed, change_options, &work);
	trace_settle();
	if (work.other)
		tracer_free(&work.other->base);
	return 0;
}

/* --- Status --- */

static enum bts_filter find_filter(const struct bts_tracer *tracer)
{
	unsigned view = tracer->options.view, hardware = tracer->programmed;

	if (view == (TRACE_USER | TRACE_KERNEL))
		return BTS_FILTER_NONE;
	if (!hardware)
		hardware = hardware_filter(wished_view(tracer->base.context));
	return hardware == view ? BTS_FILTER_HARDWARE : BTS_FILTER_SOFTWARE;
}

static void find_status(struct tracer *asked, void *status)
{
	const struct bts_tracer *tracer = bts_of(asked);

	*(struct bts_status *)status = (struct bts_status){
		.view = tracer->options.view,
		.overflow = tracer->options.overflow,
		.filter = find_filter(tracer),
		.circular = tracer->circular,
		.stamps = tracer->options.stamps,
		.size = tracer->options.size,
		.available = tracer_available(tracer),
		.lost = tracer->ring.lost,
		.lost_more = tracer->ring.lost_more,
		.truncated = tracer->truncated,
		.held = tracer->base.held,
		.full = tracer->full,
		.ended = tracer->base.context->ended,
	};
}

void bts_status(struct tracer *tracer, struct bts_status *status)
{
	trace_perform(tracer, find_status, status);
}

// SPDX-License-Identifier: MIT
// Where recording stops and starts.
#include "kernel/trace/switch.h"

#include "kernel/sched/task.h"
#include "kernel/trace/context.h"

static void lock(struct trace_context *context)
{
	if (context)
		spin_lock(&context->lock); /* interrupts are off, and stay so */
}

static void unlock(struct trace_context *context)
{
	if (context)
		spin_unlock(&context->lock, 0);
}

unsigned trace_wishes(const struct trace_context *context)
{
	unsigned view = 0;

	if (context->holds)
		return 0;
	for (const struct tracer *at = context->tracers; at; at = at->next)
		view |= at->full || at->options.paused ? 0 : at->options.view;
	return view;
}

/* A branch whose flags are none: see record.h. */
static void give(struct trace_context *context, struct bts_struct record)
{
	record.flags = 0;
	for (struct tracer *at = context->tracers; at; at = at->next)
		tracer_put(at, &record);
}

static void truncate(struct trace_context *context)
{
	for (struct tracer *at = context->tracers; at; at = at->next)
		at->truncated |= !at->options.no_branches;
}

/* The two contexts that a CPU records for; NULL where there is none. */
struct recorded {
	struct trace_context *context[2];
};

static struct recorded recorded(struct trace_cpu *trace)
{
	bool own = atomic_load(&trace->context.cpu);

	return (struct recorded){{trace->running, own ? &trace->context : NULL}};
}

static void take(void *argument, const void *area, size_t count, bool full)
{
	struct recorded *to = argument;

	for (size_t i = 0; i < 2; i++) {
		struct ds_cursor cursor;

		if (!to->context[i])
			continue;
		cursor = ds_cursor_at(area, 0, count);
		for (size_t at = 0; at < count; at++)
			give(to->context[i], ds_cursor_read(&cursor));
		if (full)
			truncate(to->context[i]);
	}
}

/* The idle task is nobody. */
static void stamp_one(struct tracer *tracer, unsigned qualifier, const struct cpu *cpu)
{
	if (cpu->current != cpu->idle)
		tracer_stamp(tracer, qualifier, cpu->current->pid, cpu->index);
}

static void stamp(struct trace_context *context, unsigned qualifier, const struct cpu *cpu)
{
	for (struct tracer *at = context->tracers; at; at = at->next)
		stamp_one(at, qualifier, cpu);
}

static bool at_threshold(const struct tracer *tracer)
{
	return tracer->options.overflow == TRACE_SIGNAL && !tracer->options.paused &&
	       (tracer->ring.used >= tracer->options.threshold || tracer_is_full(tracer));
}

/*
 * Its owner hears of it a moment later, by an interrupt of this CPU; a task that was switched out
 * with its threshold reached may be on another CPU by then.
 */
static void keep_out_of_user(struct task *task)
{
	if (task)
		atomic_store(&task->user_break, true);
}

/* Ends what has come to its end: of one tracer that is full, of all if one holds the trace. */
static void check_ends(struct cpu *cpu, struct trace_context *context)
{
	for (struct tracer *at = context->tracers; at; at = at->next) {
		if (at_threshold(at) && !at->held) {
			at->held = true;
			context->holds++;
			keep_out_of_user(context->task);
			trace_queue(cpu, at);
		}
		if (at->full)
			stamp_one(at, PTRACE_BTS_TASK_DEPARTS, cpu);
	}
	if (context->holds)
		stamp(context, PTRACE_BTS_TASK_DEPARTS, cpu);
}

static void empty_staging(struct cpu *cpu, struct recorded *to)
{
	struct ds_lease *lease = cpu->ds.loaded;

	cpu->trace->reached +=
		lease->overflowed || ds_get(lease->area, DS_BTS_INDEX) >=
					     ds_get(lease->area, DS_BTS_INTERRUPT_THRESHOLD);
	ds_drain(&cpu->ds, lease, take, to);
}

/* Recording is stopped: what was recorded goes to the rings, and the contexts come to rest. */
static void collect(struct cpu *cpu, bool departs)
{
	struct trace_cpu *trace = cpu->trace;
	struct recorded from = recorded(trace);

	lock(from.context[0]);
	lock(from.context[1]);
	if (trace->circular) {
		ring_return(&trace->circular->ring);
		ds_let_go(&cpu->ds);
	} else if (cpu->ds.loaded) {
		empty_staging(cpu, &from);
	}
	for (unsigned i = 0; i < 2; i++) {
		if (!from.context[i])
			continue;
		check_ends(cpu, from.context[i]);
		if (departs)
			stamp(from.context[i], PTRACE_BTS_TASK_DEPARTS, cpu);
		atomic_store(&from.context[i]->cpu, NULL);
	}
	trace->running = NULL;
	trace->circular = NULL;
	unlock(from.context[1]);
	unlock(from.context[0]);
}

/* The wishes of a context as far as it has any, which is then being recorded here. */
static unsigned take_up(struct cpu *cpu, struct trace_context *context)
{
	unsigned wishes = context ? trace_wishes(context) : 0;

	if (!wishes)
		return 0;
	stamp(context, PTRACE_BTS_TASK_ARRIVES, cpu);
	atomic_store(&context->cpu, cpu);
	return wishes;
}

/* How many records until the first tracer in TRACE_SIGNAL has come to its threshold. */
static size_t room_to_threshold(const struct trace_context *context)
{
	size_t least = SIZE_MAX;

	for (const struct tracer *at = context->tracers; at; at = at->next) {
		size_t used = at->ring.used, threshold = at->options.threshold;
		size_t room = threshold > used ? threshold - used : 1;

		if (at->options.overflow == TRACE_SIGNAL && !at->options.paused && room < least)
			least = room;
	}
	return least;
}

static struct tracer *only_wrapping(const struct trace_context *context)
{
	struct tracer *tracer = context->tracers;

	return !tracer->next && tracer->options.overflow == TRACE_WRAP &&
			       !tracer->options.no_branches
		       ? tracer
		       : NULL;
}

static struct ds_lease *start_staging(struct trace_cpu *trace, struct trace_context *task,
				      struct trace_context *own, unsigned view)
{
	size_t room = task ? room_to_threshold(task) : SIZE_MAX;
	size_t own_room = own ? room_to_threshold(own) : SIZE_MAX;

	trace_set_staging_threshold(trace, view, room < own_room ? room : own_room);
	return &trace->staging[view];
}

static struct ds_lease *start(struct cpu *cpu, struct trace_context *task)
{
	struct trace_cpu *trace = cpu->trace;
	unsigned task_wishes = take_up(cpu, task), own_wishes = take_up(cpu, &trace->context);
	unsigned view = trace_hardware_view(task_wishes | own_wishes);

	if (!task_wishes && !own_wishes)
		return NULL;
	trace->context.programmed = view;
	if (task_wishes) {
		trace->running = task;
		task->programmed = view;
		if (!own_wishes)
			trace->circular = only_wrapping(task);
		task->circular = trace->circular;
	}
	if (!trace->circular)
		return start_staging(trace, task_wishes ? task : NULL,
				     own_wishes ? &trace->context : NULL, view);
	ring_lend(&trace->circular->ring);
	return &trace->circular->lease;
}

void trace_rest(struct cpu *cpu)
{
	ds_switch_out(&cpu->ds);
	collect(cpu, false);
}

void trace_depart(struct cpu *cpu)
{
	ds_switch_out(&cpu->ds);
	collect(cpu, true);
}

void trace_arrive(struct cpu *cpu)
{
	struct trace_context *task = cpu->current->trace;
	struct ds_lease *lease;

	lock(task);
	lock(&cpu->trace->context);
	lease = start(cpu, task);
	unlock(&cpu->trace->context);
	unlock(task);
	ds_switch_in(&cpu->ds, lease);
}

// SPDX-License-Identifier: MIT
// Where recording stops and starts.
#include "kernel/trace/switch.h"

#include "kernel/sched/task.h"
#include "kernel/trace/context.h"
#include "kernel/trace/record.h"

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

	for (const struct tracer *at = context->tracers; at; at = at->next)
		view |= tracer_records(at) ? at->options.view : 0;
	return view;
}

static void give(struct trace_context *context, const struct bts_struct *record)
{
	for (struct tracer *at = context->tracers; at; at = at->next)
		tracer_put(at, record);
}

static void truncate(struct trace_context *context)
{
	for (struct tracer *at = context->tracers; at; at = at->next) {
		if (at->options.no_branches)
			continue;
		at->truncated |= tracer_records(at);
		tracer_put_gap(at, 0);
	}
}

/* The two contexts that a CPU records for; NULL where there is none. And whose branches. */
struct recorded {
	struct trace_context *context[2];
	struct task *task;
};

static struct recorded recorded(const struct cpu *cpu)
{
	struct trace_cpu *trace = cpu->trace;
	bool own = atomic_load(&trace->context.cpu);

	return (struct recorded){{trace->running, own ? &trace->context : NULL}, cpu->current};
}

static void enters_kernel(struct task *task, const struct bts_struct *record)
{
	task->entered.from = record->from;
	task->entered.to = record->to;
}

static void take(void *argument, const void *area, size_t count, bool full)
{
	struct recorded *to = argument;
	struct ds_cursor cursor = ds_cursor_at(area, 0, count);

	for (size_t at = 0; at < count; at++) {
		struct bts_struct record = ds_cursor_read(&cursor);

		record.flags = 0; /* a branch: see record.h */
		if (record_enters_kernel(&record))
			enters_kernel(to->task, &record);
		for (size_t i = 0; i < 2; i++)
			if (to->context[i])
				give(to->context[i], &record);
	}
	for (size_t i = 0; full && i < 2; i++)
		if (to->context[i])
			truncate(to->context[i]);
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

/* Ends what has come to its end for a tracer; the others are not concerned. */
static void check_ends(struct cpu *cpu, struct trace_context *context)
{
	for (struct tracer *at = context->tracers; at; at = at->next) {
		if (at_threshold(at) && !at->held) {
			at->held = true;
			keep_out_of_user(context->task);
			trace_queue(cpu, at);
		}
		if (at->full || at->held)
			stamp_one(at, PTRACE_BTS_TASK_DEPARTS, cpu);
	}
}

static void empty_staging(struct cpu *cpu, struct recorded *to)
{
	struct ds_lease *lease = cpu->ds.loaded;

	cpu->trace->reached +=
		lease->overflowed || ds_get(lease->area, DS_BTS_INDEX) >=
					     ds_get(lease->area, DS_BTS_INTERRUPT_THRESHOLD);
	ds_drain(&cpu->ds, lease, take, to);
}

/* A ring that wraps comes to no end, and holds nothing that others want. */
static void collect_circular(struct cpu *cpu, bool departs)
{
	struct trace_cpu *trace = cpu->trace;
	struct trace_context *context = trace->running;

	lock(context);
	ring_return(&trace->circular->ring);
	ds_let_go(&cpu->ds);
	if (departs)
		stamp_one(trace->circular, PTRACE_BTS_TASK_DEPARTS, cpu);
	atomic_store(&context->cpu, NULL);
	trace->running = NULL;
	trace->circular = NULL;
	unlock(context);
}

/*
 * The branch to the address in the kernel's half where ring 3 has just faulted, for the tracers
 * that see ring 3 only; the others have it. It is ring 3's last: before anything ends for a tracer.
 */
static void show_jump(struct recorded *to, uint64_t rip)
{
	struct bts_struct jump = {.qualifier = BTS_BRANCH,
				  .from = to->task->entered.from,
				  .to = rip,
				  .flags = BRANCH_SHOWN};

	for (size_t i = 0; i < 2 && to->task->entered.to == rip; i++) {
		struct tracer *at = to->context[i] ? to->context[i]->tracers : NULL;

		for (; at; at = at->next)
			if (at->options.view == TRACE_USER)
				tracer_put(at, &jump);
	}
	to->task->entered.to = 0;
}

static void collect_linear(struct cpu *cpu, bool departs)
{
	struct recorded from = recorded(cpu);

	lock(from.context[0]);
	lock(from.context[1]);
	if (cpu->ds.loaded)
		empty_staging(cpu, &from);
	if (cpu->trace->fault)
		show_jump(&from, cpu->trace->fault);
	for (unsigned i = 0; i < 2; i++) {
		if (!from.context[i])
			continue;
		check_ends(cpu, from.context[i]);
		if (departs)
			stamp(from.context[i], PTRACE_BTS_TASK_DEPARTS, cpu);
		atomic_store(&from.context[i]->cpu, NULL);
	}
	cpu->trace->running = NULL;
	unlock(from.context[1]);
	unlock(from.context[0]);
}

/* Recording is stopped: what was recorded goes to the rings, and the contexts come to rest. */
static void collect(struct cpu *cpu, bool departs)
{
	if (cpu->trace->circular)
		collect_circular(cpu, departs);
	else
		collect_linear(cpu, departs);
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

		if (at->options.overflow == TRACE_SIGNAL && tracer_records(at) && room < least)
			least = room;
	}
	return least;
}

/* A tracer that is alone and for which the circular shape will do, or NULL. */
static struct tracer *only_wrapping(const struct trace_context *context)
{
	struct tracer *tracer = context ? context->tracers : NULL;

	return tracer && !tracer->next && tracer->options.overflow == TRACE_WRAP &&
			       tracer->options.view == (TRACE_USER | TRACE_KERNEL) &&
			       !tracer->options.no_branches && tracer_records(tracer)
		       ? tracer
		       : NULL;
}

static struct ds_lease *start_circular(struct cpu *cpu, struct trace_context *context,
				       struct tracer *tracer)
{
	stamp_one(tracer, PTRACE_BTS_TASK_ARRIVES, cpu);
	atomic_store(&context->cpu, cpu);
	context->programmed = TRACE_USER | TRACE_KERNEL;
	context->circular = true;
	cpu->trace->running = context;
	cpu->trace->circular = tracer;
	ring_lend(&tracer->ring);
	return &tracer->lease;
}

/* Staging is empty, with the threshold furthest away. */
static struct ds_lease *start_staging(struct trace_cpu *trace, struct trace_context *task,
				      struct trace_context *own, unsigned view)
{
	size_t room = task ? room_to_threshold(task) : SIZE_MAX;
	size_t own_room = own ? room_to_threshold(own) : SIZE_MAX;

	if (own_room < room)
		room = own_room;
	if (room != SIZE_MAX)
		trace_set_staging_threshold(trace, view, room);
	return &trace->staging[view];
}

static struct ds_lease *start_linear(struct cpu *cpu, struct trace_context *task,
				     struct trace_context *own)
{
	struct trace_cpu *trace = cpu->trace;
	unsigned task_wishes = take_up(cpu, task), own_wishes = take_up(cpu, own);
	unsigned view = trace_hardware_view(task_wishes | own_wishes);

	if (!task_wishes && !own_wishes)
		return NULL;
	trace->context.programmed = view;
	if (task_wishes) {
		trace->running = task;
		task->programmed = view;
		task->circular = false;
	}
	return start_staging(trace, task_wishes ? task : NULL, own_wishes ? own : NULL, view);
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
	struct trace_context *task = cpu->current->trace, *own = &cpu->trace->context;
	struct tracer *alone;
	struct ds_lease *lease;

	/* Without the lock: who comes now lets this CPU look again (trace_settle()). */
	if (!__atomic_load_n(&own->tracers, __ATOMIC_RELAXED))
		own = NULL;
	lock(task);
	lock(own);
	alone = own ? NULL : only_wrapping(task);
	lease = alone ? start_circular(cpu, task, alone) : start_linear(cpu, task, own);
	unlock(own);
	unlock(task);
	ds_switch_in(&cpu->ds, lease);
}

void trace_user_fault(struct cpu *cpu, uint64_t rip)
{
	if (ds_is_lent(&cpu->ds))
		return;
	cpu->trace->fault = rip;
	trace_rest(cpu);
	cpu->trace->fault = 0;
	trace_arrive(cpu);
}

// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "tools/view/follow.h"

#include "tools/view/view.h"

#include "abi/ptrace_bts.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* Each switch ends the calls of a task and begins those of another: this takes a second. */
#define REOPENED_MOST (1ull << 28)

/* A task and its calls. In a CPU's stream a frame of the task's own name is around them. */
struct follow_task {
	uint32_t pid;
	struct stack stack;
	struct function self;
	char name[300];
	struct frame root;
	struct stack_counts *sum;
};

struct follower {
	const struct filter *filter;
	struct trace *trace;
	struct trace_stream *stream;
	const struct follow_events *events;
	void *tasks; /* the root of tsearch(), by pid */
	size_t task_count;
	struct stack_counts *sum;    /* of all tasks; may be NULL */
	struct follow_task *current; /* NULL: none yet */
	uint64_t position;
	uint64_t reopened; /* frames, by switches of tasks */
	bool visible;	   /* the range and the CPU are meant */
	size_t base;	   /* frames of the current stack below the function that is meant */
	bool based;	   /* it is on the stack, or all functions are meant */
	unsigned outer;	   /* 1: a frame of the task is around */
	struct cursor cursor, ahead; /* `ahead` is where branches to come are looked for */
	struct stack_future future;
};

const char *frame_name(const struct frame *frame)
{
	if (frame->function)
		return frame->function->name;
	return frame->entered >> 63 ? "[kernel]" : "[program]";
}

static bool is_shown(const struct follower *follower, size_t depth)
{
	return follower->visible && follower->based && depth >= follower->base &&
	       depth - follower->base + follower->outer < follower->filter->depth;
}

static void emit(const struct follower *follower, bool enter, const struct frame *frame,
		 size_t depth)
{
	const struct follow_events *events = follower->events;
	unsigned shown = (unsigned)(depth - follower->base) + follower->outer;

	if (enter && events->enter)
		events->enter(events->argument, frame, shown, follower->position);
	if (!enter && events->leave)
		events->leave(events->argument, frame, shown, follower->position);
}

/* The function that is meant: the outermost frame of it is the outermost that is shown. */
static void find_base(struct follower *follower, size_t depth)
{
	const char *function = follower->filter->function;
	const struct frame *frame = &follower->current->stack.frames[depth];

	if (follower->based || !frame->function || !function_is(frame->function, function))
		return;
	follower->based = true;
	follower->base = depth;
}

static void entered(void *argument, const struct stack *stack, size_t depth)
{
	struct follower *follower = argument;

	if (follower->filter->function)
		find_base(follower, depth);
	if (is_shown(follower, depth))
		emit(follower, true, &stack->frames[depth], depth);
}

static void left(void *argument, const struct stack *stack, size_t depth)
{
	struct follower *follower = argument;

	if (is_shown(follower, depth))
		emit(follower, false, &stack->frames[depth], depth);
	if (follower->filter->function && follower->based && depth == follower->base)
		follower->based = false;
}

/* What is shown of the current task begins, or ends, at once. */
static void open_all(struct follower *follower)
{
	struct follow_task *task = follower->current;

	follower->reopened += task->stack.depth;
	if (follower->reopened > REOPENED_MOST)
		fail("%s: its tasks are too deep in calls for so many switches: --from, --to and --task leave some out",
		     follower->trace->path);
	follower->visible = true;
	follower->based = !follower->filter->function;
	follower->base = 0;
	if (follower->outer && follower->filter->depth && follower->events->enter)
		follower->events->enter(follower->events->argument, &task->root, 0,
					follower->position);
	for (size_t depth = 0; depth < task->stack.depth; depth++)
		entered(follower, &task->stack, depth);
}

static void close_all(struct follower *follower)
{
	struct follow_task *task = follower->current;

	for (size_t depth = task->stack.depth; depth-- > 0;)
		if (is_shown(follower, depth))
			emit(follower, false, &task->stack.frames[depth], depth);
	if (follower->outer && follower->filter->depth && follower->events->leave)
		follower->events->leave(follower->events->argument, &task->root, 0,
					follower->position);
	follower->visible = false;
}

static void set_visible(struct follower *follower, bool visible)
{
	if (visible && !follower->visible)
		open_all(follower);
	else if (!visible && follower->visible)
		close_all(follower);
}

static int compare_tasks(const void *left, const void *right)
{
	const struct follow_task *a = left, *b = right;

	return (a->pid > b->pid) - (a->pid < b->pid);
}

static struct follow_task *find_task(struct follower *follower, uint32_t pid,
				     const struct stack_observer *observer)
{
	struct follow_task key = {.pid = pid}, *task, **found;
	const struct trace_stream *named = trace_find(follower->trace, pid);
	char name[256];

	found = tfind(&key, &follower->tasks, compare_tasks);
	if (found)
		return *found;
	if (follower->task_count++ == TRACE_STREAMS_MOST)
		fail("%s: %s has more than %u tasks", follower->trace->path,
		     trace_stream_name(follower->stream, name, sizeof(name)), TRACE_STREAMS_MOST);
	task = allocate(1, sizeof(*task));
	task->pid = pid;
	task->sum = follower->sum;
	if (!tsearch(task, &follower->tasks, compare_tasks))
		fail("no memory for the tasks of a stream");
	stack_init(&task->stack, trace_space(follower->stream, pid));
	task->stack.observer = observer;
	task->stack.future = &follower->future;
	task->stack.entries = follower->trace->entries;
	task->stack.entry_count = follower->trace->entry_count;
	snprintf(task->name, sizeof(task->name), pid ? "task %u" : "no task", pid);
	if (named)
		snprintf(task->name, sizeof(task->name), "%s",
			 trace_stream_name(named, name, sizeof(name)));
	task->self.name = task->name;
	task->root.function = &task->self;
	return task;
}

/* In a CPU's stream: the task of the stamp runs now. */
static void switch_to(struct follower *follower, const struct cursor_item *item,
		      const struct stack_observer *observer)
{
	struct follow_task *task =
		find_task(follower, follower->outer ? item->pid : follower->stream->id, observer);
	bool visible = follower->visible;

	if (task == follower->current)
		return;
	if (follower->current)
		set_visible(follower, false);
	follower->current = task;
	if (visible)
		set_visible(follower, true);
}

static void report_block(const struct follower *follower, uint64_t at, uint64_t from, bool executed)
{
	const struct stack *stack = &follower->current->stack;
	const struct follow_block block = {.space = stack->space,
					   .at = at,
					   .from = from,
					   .position = follower->position,
					   .executed = executed,
					   .shown = stack->depth &&
						    is_shown(follower, stack->depth - 1)};

	if (follower->visible && follower->events->block)
		follower->events->block(follower->events->argument, &block);
}

static void report_signal(const struct follower *follower, const struct function *handler)
{
	if (handler && follower->visible && follower->events->signal)
		follower->events->signal(follower->events->argument, handler, follower->position);
}

/* The function of the program at `to`, if it begins there and the task did not go there itself. */
static const struct function *handler_at(const struct stack *stack, uint64_t to)
{
	const struct function *function = space_function(stack->space, to);

	return function && function->start == to && !(to >> 63) ? function : NULL;
}

/* After the kernel has returned to `to`: stack.c has an event for a handler. */
static const struct function *handler_entered(const struct stack *stack, uint64_t from, uint64_t to)
{
	const struct frame *top = stack_top(stack);

	return from >> 63 && top && top->kind == FRAME_EVENT && top->entered == to
		       ? handler_at(stack, to)
		       : NULL;
}

/* Where no branch of the kernel is recorded: the function that the branch at `from` is in, if the
 * task was not in it, and has run from its start on. */
static const struct function *handler_unseen(const struct stack *stack, uint64_t from)
{
	const struct function *function = space_function(stack->space, from);
	uint64_t count;

	if (!function || from >> 63 || !stack->depth || stack->switched)
		return NULL;
	for (size_t i = 0; i < stack->depth; i++)
		if (stack->frames[i].function == function)
			return NULL;
	return space_walk(stack->space, function->start, from, &count) == WALK_WHOLE ? function
										     : NULL;
}

static void take_branch(struct follower *follower, const struct cursor_item *item)
{
	struct stack *stack = &follower->current->stack;
	const struct trace_record *record = &item->record;
	uint64_t count = 0;
	bool whole, executed;

	if (follower->stream->view == PTRACE_BTS_USER && record->from >> 63) {
		/* The kernel returns, of which no more is there: perf.data. */
		if (stack->at &&
		    space_walk(stack->space, stack->at, record->to, &count) == WALK_WHOLE) {
			report_block(follower, stack->at, record->to, false);
			follower->position += count;
		} else if (stack->at) {
			report_signal(follower, handler_at(stack, record->to));
		}
		stack->counts.branches++;
		stack->at = record->to;
		return;
	}
	whole = stack->at &&
		space_walk(stack->space, stack->at, record->from, &count) == WALK_WHOLE;
	if (stack->at && !whole && follower->stream->view == PTRACE_BTS_USER)
		report_signal(follower, handler_unseen(stack, record->from));
	executed = stack_executes(stack, record->from, record->to);
	follower->position += whole ? 0 : count;
	report_block(follower, whole ? stack->at : record->from, record->from, executed);
	follower->position += (whole ? count : 0) + executed;
	stack->position = follower->position;
	stack_branch(stack, record->from, record->to);
	report_signal(follower, handler_entered(stack, record->from, record->to));
	if (follower->visible && follower->events->branch)
		follower->events->branch(follower->events->argument, item, stack,
					 follower->position);
}

static void take_item(struct follower *follower, const struct cursor_item *item,
		      const struct stack_observer *observer)
{
	const struct follow_events *events = follower->events;

	if (!follower->current || (follower->outer && item->pid != follower->current->pid))
		switch_to(follower, item, observer);
	set_visible(follower, filter_has_item(follower->filter, item));
	switch (item->kind) {
	case CURSOR_BRANCH:
		take_branch(follower, item);
		return;
	case CURSOR_STAMP:
		stack_switch(&follower->current->stack);
		if (events->stamp && follower->visible && item->record.to)
			events->stamp(events->argument, item, follower->position);
		return;
	case CURSOR_GAP:
		stack_gap(&follower->current->stack);
		if (events->gap && follower->visible)
			events->gap(events->argument, item->missing, follower->position);
		return;
	default:
		if (events->mark && follower->visible)
			events->mark(events->argument, item, follower->position);
	}
}

static void add_counts(struct stack_counts *sum, const struct stack_counts *counts)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)counts;

	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

static void free_task(void *task)
{
	struct follow_task *ended = task;

	if (ended->sum)
		add_counts(ended->sum, &ended->stack.counts);
	stack_free(&ended->stack);
	free(ended);
}

static void begin_ahead(void *argument)
{
	struct follower *follower = argument;
	struct cursor *ahead = &follower->ahead;
	struct trace_record *records = ahead->records;

	*ahead = follower->cursor;
	ahead->records = records;
	memcpy(&records[ahead->at], &follower->cursor.records[ahead->at],
	       (ahead->count - ahead->at) * sizeof(*records));
}

static bool next_ahead(void *argument, uint64_t *from, uint64_t *to)
{
	struct follower *follower = argument;
	struct cursor_item item;

	while (cursor_next(&follower->ahead, &item) && item.kind != CURSOR_GAP) {
		if (item.kind != CURSOR_BRANCH ||
		    (follower->outer && item.pid != follower->current->pid))
			continue;
		*from = item.record.from;
		*to = item.record.to;
		return true;
	}
	return false;
}

uint64_t follow(const struct filter *filter, struct trace *trace, struct trace_stream *stream,
		const struct follow_events *events, struct stack_counts *counts)
{
	struct follower follower = {.filter = filter,
				    .trace = trace,
				    .stream = stream,
				    .events = events,
				    .sum = counts,
				    .outer = stream->id & TRACE_STREAM_CPU ? 1 : 0};
	const struct stack_observer observer = {entered, left, &follower};
	struct cursor_item item;

	follower.future = (struct stack_future){begin_ahead, next_ahead, &follower};
	cursor_start(&follower.cursor, trace, stream);
	cursor_start(&follower.ahead, trace, stream);
	while (cursor_next(&follower.cursor, &item))
		take_item(&follower, &item, &observer);
	cursor_stop(&follower.cursor);
	cursor_stop(&follower.ahead);
	if (follower.current)
		set_visible(&follower, false);
	tdestroy(follower.tasks, free_task);
	return follower.position;
}

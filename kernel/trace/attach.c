// SPDX-License-Identifier: MIT
// Tracers join a context, are asked, and leave it.
#include "kernel/mm/vm.h"
#include "kernel/sched/task.h"
#include "kernel/trace/context.h"
#include "kernel/trace/cpu.h"

static struct spinlock attachments; /* of every task's `trace` and `trace_over`, of references */

/* One more attachment to the task's context, which is `fresh` if it has none. NULL: it ended. */
static struct trace_context *get_context(struct task *task, struct trace_context *fresh)
{
	SPIN_GUARD(&attachments);

	if (!task->trace_over && !task->trace) {
		fresh->task = task;
		task->trace = fresh;
	}
	if (task->trace)
		task->trace->references++;
	return task->trace;
}

static int get_task_context(struct task *task, struct trace_context **context)
{
	struct trace_context *fresh = area_alloc(1, VM_WRITE);

	if (!fresh)
		return -ENOMEM;
	*context = get_context(task, fresh);
	if (*context != fresh)
		area_free(fresh, 1);
	return *context ? 0 : -ESRCH;
}

static int get_cpu_context(unsigned index, struct trace_context **context)
{
	SPIN_GUARD(&attachments);

	if (index >= cpu_count() || !atomic_load(&cpu_by_index(index)->online))
		return -EINVAL;
	*context = &cpu_by_index(index)->trace->context;
	(*context)->references++;
	return 0;
}

/* One attachment less. True: it was the last, and the scheduler finds the context no more. */
static bool put_context(struct trace_context *context)
{
	SPIN_GUARD(&attachments);

	if (--context->references)
		return false;
	if (context->task)
		context->task->trace = NULL;
	return true;
}

static void link_tracer(struct tracer *tracer, void *argument)
{
	struct tracer **list = &tracer->context->tracers[tracer->unit];

	(void)argument;
	tracer->next = *list;
	*list = tracer;
	tracer->context->units |= 1u << tracer->unit;
}

static void unlink_tracer(struct tracer *tracer, void *argument)
{
	(void)argument;
	LIST_REMOVE(tracer->context->tracers[tracer->unit], tracer, next);
	if (!tracer->context->tracers[tracer->unit])
		tracer->context->units &= ~(1u << tracer->unit);
	tracer->context = NULL;
}

/* Frees a tracer and the one that it brought. */
static bool free_tracer(struct tracer *tracer)
{
	struct tracer *brought = tracer->brings;
	bool whole = trace_units[tracer->unit]->free(tracer);

	return (!brought || trace_detach(brought)) && whole;
}

int trace_link(struct task *task, unsigned index, struct tracer *tracer)
{
	int error;

	tracer->claim =
		(struct trace_claim){tracer->unit, task ? task->pid : 0, index, tracer, 0, NULL};
	error = trace_claim(&tracer->claim);
	if (!error)
		error = task ? get_task_context(task, &tracer->context)
			     : get_cpu_context(index, &tracer->context);
	if (error) {
		trace_unclaim(&tracer->claim);
		free_tracer(tracer);
		return error;
	}
	tracer->replaces = NULL;
	trace_perform(tracer, link_tracer, NULL);
	trace_settle();
	return 0;
}

bool trace_detach(struct tracer *tracer)
{
	struct trace_context *context = tracer->context;
	bool last;

	trace_perform(tracer, unlink_tracer, NULL);
	last = put_context(context);
	trace_settle();
	trace_unclaim(&tracer->claim);
	if (last)
		area_free(context, 1);
	return free_tracer(tracer);
}

void trace_task_ended(struct task *task)
{
	struct cpu *cpu;
	bool here;
	SPIN_GUARD(&attachments);

	task->trace_over = true;
	if (!task->trace)
		return;
	cpu = this_cpu();
	here = task == cpu->current && cpu->recording;
	if (here)
		trace_depart(cpu);
	task->trace->task = NULL;
	task->trace->ended = true;
	task->trace = NULL;
	if (here)
		trace_arrive(cpu);
}

/* --- What a reader asks for --- */

static void resume(struct tracer *tracer, void *argument)
{
	(void)argument;
	atomic_store(&tracer->held, false);
	if (trace_units[tracer->unit]->go_on)
		trace_units[tracer->unit]->go_on(tracer);
}

/*
 * Where it is recorded, it has arrived anew by then. A rest of a task that traces itself would find
 * the threshold reached and hold the trace once more, before ring 3 got on.
 */
void trace_resume(struct tracer *tracer)
{
	trace_perform(tracer, resume, NULL);
	if (!atomic_load(&tracer->context->cpu))
		trace_settle();
}

static void clear(struct tracer *tracer, void *argument)
{
	(void)argument;
	trace_units[tracer->unit]->clear(tracer);
}

void trace_clear(struct tracer *tracer)
{
	trace_perform(tracer, clear, NULL);
}

struct reading {
	void *records;
	size_t count;
};

static void read(struct tracer *tracer, void *argument)
{
	struct reading *reading = argument;

	reading->count = trace_units[tracer->unit]->read(tracer, reading->records, reading->count);
}

size_t trace_read(struct tracer *tracer, void *records, size_t most)
{
	struct reading reading = {records, most};

	trace_perform(tracer, read, &reading);
	return reading.count;
}

bool trace_is_held(const struct tracer *tracer)
{
	return atomic_load(&tracer->held);
}

void trace_unseen(void (*function)(void *argument), void *argument)
{
	struct cpu *cpu = this_cpu();
	bool recording = cpu->recording;

	if (recording)
		trace_rest(cpu);
	function(argument);
	if (recording)
		trace_arrive(cpu);
}

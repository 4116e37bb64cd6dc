// SPDX-License-Identifier: MIT
// Tracers join a context and leave it.
#include "kernel/mm/vm.h"
#include "kernel/sched/task.h"
#include "kernel/trace/context.h"
#include "kernel/trace/cpu.h"
#include "kernel/trace/memory.h"

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

static size_t size_with(const struct trace_size *size, size_t buffer)
{
	return (size->pages + (buffer ? trace_memory_pages(buffer) : 0)) * PAGE_SIZE;
}

struct tracer *trace_new_page(unsigned unit, struct trace_size *size)
{
	size_t wanted = size_with(size, size->bytes);
	size_t charged = account_charge(size->account, wanted, size_with(size, size->least),
					size->replaces ? size->replaces->charged : 0);
	struct tracer *tracer = charged ? area_alloc(1, VM_WRITE) : NULL;

	if (!tracer) {
		account_uncharge(size->account, charged);
		return NULL;
	}
	tracer->unit = unit;
	tracer->account = size->account;
	tracer->charged = charged;
	tracer->replaces = size->replaces;
	if (charged < wanted)
		size->bytes = charged - size->pages * PAGE_SIZE - TRACE_PATTERN_BYTES;
	return tracer;
}

bool trace_free_page(struct tracer *tracer)
{
	account_uncharge(tracer->account, tracer->charged);
	area_free(tracer, 1);
	return true;
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
	int error = trace_claim(&tracer->claim, tracer->unit, task, tracer, index);

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

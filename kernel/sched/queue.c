// SPDX-License-Identifier: MIT
#include "kernel/sched/queue.h"

#include "kernel/sched/task.h"

#include <stddef.h>

void queue_push(struct run_queue *queue, struct task *task)
{
	task->next = NULL;
	if (queue->last)
		queue->last->next = task;
	else
		queue->first = task;
	queue->last = task;
}

struct task *queue_pop(struct run_queue *queue)
{
	struct task *task = queue->first;

	if (!task)
		return NULL;
	queue->first = task->next;
	if (!queue->first)
		queue->last = NULL;
	return task;
}

bool queue_remove(struct run_queue *queue, struct task *task)
{
	struct task *before = NULL;

	for (struct task *at = queue->first; at; before = at, at = at->next) {
		if (at != task)
			continue;
		if (before)
			before->next = task->next;
		else
			queue->first = task->next;
		if (queue->last == task)
			queue->last = before;
		return true;
	}
	return false;
}

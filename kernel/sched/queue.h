/* SPDX-License-Identifier: MIT */
/* First in, first out, of tasks; a task stands in one queue at most. The caller locks. */
#ifndef SPOOR_KERNEL_SCHED_QUEUE_H
#define SPOOR_KERNEL_SCHED_QUEUE_H

#include <stdbool.h>

struct task;

struct run_queue {
	struct task *first, *last;
};

void queue_push(struct run_queue *queue, struct task *task);
struct task *queue_pop(struct run_queue *queue);	       /* NULL if empty */
bool queue_remove(struct run_queue *queue, struct task *task); /* false: was not in it */

#endif

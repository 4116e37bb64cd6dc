// SPDX-License-Identifier: MIT
#include "kernel/sched/task.h"

#include "kernel/cpu.h"
#include "kernel/end.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "kernel/time.h"
#include "kernel/trace/cpu.h"
#include "lib/format.h"

#define STACK_PAGES 4

/* The struct is at the low end of the task's own stack area. */
_Static_assert(sizeof(struct task) < PAGE_SIZE / 4, "room for the stack");

static struct spinlock lock; /* of joiners, references and pids */
static unsigned last_pid;

/* A new task begins here, out of task_switch(), with the scheduler's lock and IF = 0. */
static _Noreturn void task_begin(void)
{
	struct task *task = current_task();

	sched_finish_switch();
	__asm__ volatile("sti");
	task->entry(task->argument);
	task_exit();
}

static void sleep_over(struct timer *timer)
{
	struct task *task = (struct task *)((uint8_t *)timer - offsetof(struct task, sleep));

	sched_wake_all(&task->sleeping);
}

struct task *task_create_stopped(const char *name, void (*entry)(void *), void *argument)
{
	uint8_t *area = area_alloc(STACK_PAGES, VM_WRITE);
	struct task *task = (struct task *)area;
	uint64_t *top;

	if (!area)
		return NULL;
	sched_reap();
	top = (uint64_t *)(area + STACK_PAGES * PAGE_SIZE);
	*--top = 0; /* the return address of task_begin(): backtraces end */
	*--top = (uint64_t)task_begin;
	top -= 6; /* the registers that task_switch() takes up, zero */
	task->rsp = (uint64_t)top;
	task->stack = area;
	task->state = TASK_BLOCKED;
	task->references = 2;
	task->cpu = this_cpu()->index;
	task->affinity = current_task() ? current_task()->affinity : cpu_set_all();
	task->sleep.expired = sleep_over;
	task->entry = entry;
	task->argument = argument;
	format(task->name, sizeof(task->name), "%s", name);
	SPIN_GUARD(&lock);
	task->pid = ++last_pid;
	return task;
}

struct task *task_create(const char *name, void (*entry)(void *), void *argument)
{
	struct task *task = task_create_stopped(name, entry, argument);

	if (task)
		task_start(task);
	return task;
}

void task_put(struct task *task)
{
	uint64_t flags = spin_lock(&lock);
	bool last = --task->references == 0;

	spin_unlock(&lock, flags);
	if (last)
		area_free(task->stack, STACK_PAGES);
}

/* Nothing of the task runs any more, or it is the caller itself at its end. */
static void end_task(struct task *task)
{
	timer_stop(&task->sleep);
	trace_task_ended(task);
	SPIN_GUARD(&lock);
	task->ended = true;
	sched_wake_all(&task->joiners);
}

void task_exit(void)
{
	struct task *task = current_task();

	end_task(task);
	__asm__ volatile("cli");
	task->state = TASK_DEAD;
	schedule();
	panic("a dead task was scheduled");
}

void task_kill(struct task *task)
{
	if (task == current_task())
		task_exit();
	if (sched_remove(task))
		end_task(task);
}

void task_join(struct task *task)
{
	SPIN_GUARD(&lock);

	while (!task->ended)
		sched_wait(&task->joiners, &lock);
}

void task_sleep(uint64_t microseconds)
{
	struct task *task = current_task();
	uint64_t end = clock_us() + microseconds;
	struct spinlock own = {0};
	SPIN_GUARD(&own);

	timer_start(&task->sleep, microseconds);
	while (clock_us() < end)
		sched_wait(&task->sleeping, &own);
}

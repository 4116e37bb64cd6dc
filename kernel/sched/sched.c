// SPDX-License-Identifier: MIT
// One lock guards all queues. It is held across task_switch() and released by whoever comes out of
// it: the task that waited there, or task_begin() for a new one.
#include "kernel/sched/sched.h"

#include "kernel/cpu.h"
#include "kernel/panic.h"
#include "kernel/time.h"
#include "kernel/trace/context.h"

static struct spinlock lock;
static struct run_queue dead;
static uint64_t slice = 1000, switches;
static struct timer slice_timers[MAX_CPUS];

static void slice_expired(struct timer *timer)
{
	(void)timer;
	this_cpu()->slice_over = true;
}

void sched_set_slice(uint64_t microseconds)
{
	slice = microseconds < 100 ? 100 : microseconds;
}

uint64_t sched_switch_count(void)
{
	return switches;
}

/* Who runs next; the running task goes on while it can and its slice is not over. */
static struct task *pick(struct cpu *cpu)
{
	struct task *now = cpu->current;
	struct task *next;

	if (now->state == TASK_RUNNING && now != cpu->idle) {
		if (!cpu->slice_over || !cpu->ready.first)
			return now;
		now->state = TASK_READY;
		queue_push(&cpu->ready, now);
	}
	next = queue_pop(&cpu->ready);
	return next ? next : cpu->idle;
}

/* From here on: what the switch itself took, much on virtual processors, is nobody's time. */
static void start_slice(struct cpu *cpu)
{
	if (cpu->current != cpu->idle)
		timer_start(&slice_timers[cpu->index], slice);
	else
		timer_stop(&slice_timers[cpu->index]);
}

void sched_finish_switch(void)
{
	struct cpu *cpu = this_cpu();
	struct task *left = cpu->left;

	cpu->left = NULL;
	if (left && left->state == TASK_DEAD)
		queue_push(&dead, left);
	atomic_store_explicit(&lock.held, false, memory_order_release);
	if (left)
		start_slice(cpu);
	if (cpu->current->trace || cpu->ds.loaded)
		trace_arrive(cpu, cpu->current->trace);
}

static void switch_to(struct cpu *cpu, struct task *next)
{
	struct task *now = cpu->current;

	next->state = TASK_RUNNING;
	next->switches++;
	switches++;
	cpu->left = now;
	cpu->current = next;
	cpu->kernel_rsp = next->kernel_rsp;
	cpu->task_state.rsp[0] = next->kernel_rsp;
	task_switch(&now->rsp, next->rsp);
}

static void acquire(void)
{
	while (atomic_exchange_explicit(&lock.held, true, memory_order_acquire))
		__asm__ volatile("pause");
}

/*
 * Interrupts are off. The first act is to stop the trace of the task that leaves, so that its
 * buffer holds as little of the kernel as can be; timers are served after it for the same reason.
 */
static inline void stop_trace_and_lock(struct cpu *cpu)
{
	if (cpu->current->trace)
		trace_depart(cpu, cpu->current->trace);
	ASSERT(!cpu->preemption_off);
	if (cpu->timer_fired)
		time_interrupt_work(cpu);
	acquire();
}

static void switch_away(struct cpu *cpu)
{
	struct task *next = pick(cpu);

	cpu->slice_over = false;
	cpu->reschedule = false;
	if (next != cpu->current)
		switch_to(cpu, next);
	sched_finish_switch();
}

void schedule(void)
{
	uint64_t flags = interrupts_save();
	struct cpu *cpu = this_cpu();

	stop_trace_and_lock(cpu);
	switch_away(cpu);
	interrupts_restore(flags);
}

void schedule_if_due(void)
{
	if (this_cpu()->reschedule && !this_cpu()->preemption_off)
		schedule();
}

void task_yield(void)
{
	uint64_t flags = interrupts_save();

	this_cpu()->slice_over = true;
	schedule();
	interrupts_restore(flags);
}

/* A task that ran alone may have come to the end of its slice long ago: it gets a new one now. */
static void make_ready_locked(struct task *task)
{
	struct cpu *cpu = this_cpu();
	struct timer *slice_timer = &slice_timers[cpu->index];

	task->state = TASK_READY;
	task->waiting = NULL;
	queue_push(&cpu->ready, task);
	if (cpu->current == cpu->idle)
		cpu->reschedule = true;
	else if (!slice_timer->running)
		timer_start(slice_timer, slice);
}

void sched_make_ready(struct task *task)
{
	uint64_t flags = spin_lock(&lock);

	make_ready_locked(task);
	spin_unlock(&lock, flags);
}

/*
 * The lock is held from before the task stands in the queue until it has left the CPU: nobody can
 * wake it onto another CPU while it still runs here.
 */
void sched_wait(struct run_queue *queue, struct spinlock *guard)
{
	struct cpu *cpu = this_cpu();
	struct task *task = cpu->current;

	stop_trace_and_lock(cpu);
	task->state = TASK_BLOCKED;
	task->waiting = queue;
	queue_push(queue, task);
	atomic_store_explicit(&guard->held, false, memory_order_release);
	switch_away(cpu);
	spin_lock(guard);
}

void sched_wake_all(struct run_queue *queue)
{
	uint64_t flags = spin_lock(&lock);
	struct task *task;

	while ((task = queue_pop(queue)))
		make_ready_locked(task);
	spin_unlock(&lock, flags);
}

void sched_remove(struct task *task)
{
	uint64_t flags = spin_lock(&lock);

	if (task->state == TASK_READY)
		queue_remove(&this_cpu()->ready, task);
	else if (task->waiting)
		queue_remove(task->waiting, task);
	task->waiting = NULL;
	task->state = TASK_DEAD;
	queue_push(&dead, task);
	spin_unlock(&lock, flags);
}

void sched_reap(void)
{
	for (;;) {
		uint64_t flags = spin_lock(&lock);
		struct task *task = queue_pop(&dead);

		spin_unlock(&lock, flags);
		if (!task)
			return;
		task_put(task);
	}
}

void sched_init(void)
{
	struct cpu *cpu = this_cpu();
	static struct task idle_tasks[MAX_CPUS];

	cpu->idle = &idle_tasks[cpu->index];
	cpu->idle->state = TASK_RUNNING;
	cpu->idle->references = 1;
	cpu->current = cpu->idle;
	slice_timers[cpu->index].expired = slice_expired;
}

void sched_idle(void)
{
	struct cpu *cpu = this_cpu();

	for (;;) {
		sched_reap();
		__asm__ volatile("cli");
		if (!cpu->ready.first)
			__asm__ volatile("sti; hlt");
		else
			schedule();
		__asm__ volatile("sti");
	}
}

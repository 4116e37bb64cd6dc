// SPDX-License-Identifier: MIT
// One lock guards all queues. It is held across task_switch() and released by the task
// that was switched to: where it waited, or in task_begin() if it is new.
#include "kernel/sched/sched.h"

#include "drivers/clock/clock.h"
#include "drivers/clock/tsc.h"
#include "kernel/cpu.h"
#include "kernel/end.h"
#include "kernel/smp/smp.h"
#include "kernel/time.h"
#include "kernel/trace/cpu.h"
#include "kernel/trap/user.h"

static struct spinlock lock;
static struct run_queue dead;
static uint64_t slice = 1000, switches;

#define MOST_ARRIVAL 20000 /* microseconds */

static void queue_push(struct run_queue *queue, struct task *task)
{
	task->next = NULL;
	if (queue->first)
		queue->last->next = task;
	else
		queue->first = task;
	queue->last = task;
}

static struct task *queue_pop(struct run_queue *queue)
{
	struct task *task = queue->first;

	if (task)
		queue->first = task->next;
	return task;
}

static void queue_remove(struct run_queue *queue, struct task *task)
{
	LIST_REMOVE(queue->first, task, next);
	for (struct task *at = queue->first; at; at = at->next)
		queue->last = at;
}

static void slice_expired(struct timer *timer)
{
	(void)timer;
	this_cpu()->slice_over = true;
}

void sched_set_slice(uint64_t microseconds)
{
	slice = microseconds < 100 ? 100 : microseconds;
	for (unsigned i = 0; i < cpu_count(); i++)
		cpu_by_index(i)->slice_us = slice;
}

uint64_t sched_switch_count(void)
{
	return switches;
}

static bool cpu_is_idle(const struct cpu *cpu)
{
	return cpu->current == &cpu->idle && !cpu->ready.first;
}

static bool may_run_on(const struct task *task, unsigned index)
{
	return cpu_set_has(&task->affinity, index) && atomic_load(&cpu_by_index(index)->online);
}

/* Where it ran last if it may, else anywhere idle, else the first it may run on. */
static struct cpu *place(const struct task *task)
{
	struct cpu *first = NULL;

	if (may_run_on(task, task->cpu) && cpu_is_idle(cpu_by_index(task->cpu)))
		return cpu_by_index(task->cpu);
	for (unsigned i = 0; i < cpu_count(); i++) {
		if (!may_run_on(task, i))
			continue;
		if (cpu_is_idle(cpu_by_index(i)))
			return cpu_by_index(i);
		if (!first || i == task->cpu)
			first = cpu_by_index(i);
	}
	return first;
}

/* A task that ran alone may be past the end of its slice: it gets a new one when another waits. */
static void give_slice(struct cpu *cpu)
{
	if (cpu->ready.first && !cpu->slice.running)
		timer_start(&cpu->slice, cpu->slice_us);
}

static void make_ready_locked(struct task *task)
{
	struct cpu *cpu = place(task);

	task->state = TASK_READY;
	task->waiting = NULL;
	task->cpu = cpu->index;
	queue_push(&cpu->ready, task);
	if (cpu == this_cpu() && cpu->current != &cpu->idle)
		give_slice(cpu);
	else if (cpu->current == &cpu->idle || !cpu->slice.running)
		smp_kick(cpu->index);
}

/* The task that runs next; the running one goes on while it can and its slice is not over. */
static struct task *pick(struct cpu *cpu)
{
	struct task *now = cpu->current;
	struct task *next;

	if (now->state == TASK_RUNNING && now != &cpu->idle) {
		bool stays = may_run_on(now, cpu->index);

		if (stays && (!cpu->slice_over || !cpu->ready.first)) {
			give_slice(cpu);
			return now;
		}
		if (stays) {
			now->state = TASK_READY;
			queue_push(&cpu->ready, now);
		} else {
			cpu->leaves = now; /* to another CPU, once its registers are saved */
			cpu->unfinished = true;
		}
	}
	next = queue_pop(&cpu->ready);
	return next ? next : &cpu->idle;
}

/*
 * A trace arrives after the slice has begun. On a slow host that takes longer than a slice: a task
 * would be interrupted before its first instruction, each time. So a slice with an arrival is
 * longer by what arrivals took lately, but not by what a host that took the processor away adds.
 */
static void allow_arrival(struct cpu *cpu)
{
	uint64_t arrival = tsc_to_us(cpu->arrival);

	cpu->slice_us = slice + (arrival < MOST_ARRIVAL ? arrival : MOST_ARRIVAL);
}

static void arrive(struct cpu *cpu)
{
	uint64_t began = tsc_read(), least = cpu->arrival - cpu->arrival / 8, took;

	allow_arrival(cpu);
	trace_arrive(cpu);
	took = tsc_read() - began;
	cpu->arrival = took > least ? took : least;
}

static void finish_rest(struct cpu *cpu)
{
	cpu->unfinished = false;
	if (cpu->left)
		queue_push(&dead, cpu->left);
	if (cpu->leaves)
		make_ready_locked(cpu->leaves);
	cpu->left = cpu->leaves = NULL;
	spin_release(&lock);
	if (cpu->current->trace || cpu->recording)
		arrive(cpu);
	else
		cpu->slice_us = slice;
}

/* Tracing costs an untraced switch this test, which others share, and two elsewhere. */
static void finish(struct cpu *cpu)
{
	if (cpu->unfinished)
		finish_rest(cpu);
	else
		spin_release(&lock);
}

/* At the switch's end, so that no task pays for the switch, which is slow under a hypervisor. */
static void start_slice(struct cpu *cpu)
{
	if (cpu->current != &cpu->idle)
		timer_start(&cpu->slice, cpu->slice_us);
	else
		timer_stop(&cpu->slice);
}

void sched_finish_switch(void)
{
	struct cpu *cpu = this_cpu();

	start_slice(cpu);
	finish(cpu);
}

static void switch_to(struct cpu *cpu, struct task *next)
{
	struct task *now = cpu->current;

	next->state = TASK_RUNNING;
	next->cpu = cpu->index;
	next->switches++;
	switches++;
	if (now->state == TASK_DEAD) {
		cpu->left = now;
		cpu->unfinished = true;
	}
	if (next->trace) {
		cpu->unfinished = true;
		allow_arrival(cpu);
	}
	cpu->current = next;
	cpu->kernel_rsp = next->kernel_rsp;
	cpu->task_state.rsp[0] = next->kernel_rsp;
	if (now->context != next->context)
		user_switch(now->context, next->context);
	task_switch(&now->rsp, next->rsp);
}

/*
 * Interrupts are off. The first act is to stop the trace of the task that leaves, so that its
 * buffer holds as little of the kernel as can be; timers are served after it for the same reason.
 */
static inline void stop_trace_and_lock(struct cpu *cpu)
{
	if (cpu->recording) {
		trace_depart(cpu);
		cpu->unfinished = true;
	}
	ASSERT(!cpu->preemption_off);
	if (cpu->timer_fired)
		time_interrupt_work(cpu);
	spin_acquire(&lock);
}

static void switch_away(struct cpu *cpu)
{
	struct task *next = pick(cpu);

	cpu->slice_over = false;
	cpu->reschedule = false;
	if (next == cpu->current) {
		finish(cpu);
		return;
	}
	switch_to(cpu, next);
	sched_finish_switch();
}

void schedule(void)
{
	struct cpu *cpu = this_cpu();

	stop_trace_and_lock(cpu);
	switch_away(cpu);
}

void schedule_if_due(void)
{
	uint64_t flags = interrupts_save();

	if (this_cpu()->reschedule && !this_cpu()->preemption_off)
		schedule();
	interrupts_restore(flags);
}

void task_yield(void)
{
	uint64_t flags = interrupts_save();

	this_cpu()->slice_over = true;
	schedule();
	interrupts_restore(flags);
}

void task_start(struct task *task)
{
	SPIN_GUARD(&lock);

	make_ready_locked(task);
}

/*
 * The lock is held from before the task is in the queue until it has left the CPU: nobody can
 * wake it onto another CPU while it still runs here.
 */
void sched_wait(struct run_queue *queue, struct spinlock *guard)
{
	struct cpu *cpu = this_cpu();
	struct task *task = cpu->current;

	stop_trace_and_lock(cpu);
	if (task->killed) {
		spin_release(guard);
		finish(cpu);
		task_exit();
	}
	task->state = TASK_BLOCKED;
	task->waiting = queue;
	queue_push(queue, task);
	spin_release(guard);
	switch_away(cpu);
	spin_acquire(guard);
}

void sched_wake_all(struct run_queue *queue)
{
	struct task *task;
	SPIN_GUARD(&lock);

	while ((task = queue_pop(queue)))
		make_ready_locked(task);
}

bool sched_remove(struct task *task)
{
	SPIN_GUARD(&lock);

	if (task->state == TASK_RUNNING) {
		task->killed = true;
		smp_kick(task->cpu);
	}
	if (task->state != TASK_READY && task->state != TASK_BLOCKED)
		return false;
	if (task->state == TASK_READY)
		queue_remove(&cpu_by_index(task->cpu)->ready, task);
	else if (task->waiting)
		queue_remove(task->waiting, task);
	task->waiting = NULL;
	task->state = TASK_DEAD;
	queue_push(&dead, task);
	return true;
}

/* Wherever the task is, it passes user_run() or the end of an interrupt before it is in ring 3. */
void sched_break_user(struct task *task)
{
	SPIN_GUARD(&lock);

	atomic_store(&task->user_break, true);
	if (task->state == TASK_RUNNING && task != this_cpu()->current)
		smp_kick(task->cpu);
}

void task_set_affinity(struct task *task, struct cpu_set cpus)
{
	uint64_t flags = spin_lock(&lock);
	bool here = task == this_cpu()->current;

	task->affinity = cpus;
	if (task->state == TASK_READY && !may_run_on(task, task->cpu)) {
		queue_remove(&cpu_by_index(task->cpu)->ready, task);
		make_ready_locked(task);
	} else if (task->state == TASK_RUNNING && !here) {
		smp_kick(task->cpu);
	}
	spin_unlock(&lock, flags);
	if (here && !may_run_on(task, this_cpu()->index))
		task_yield();
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

	cpu->idle.state = TASK_RUNNING;
	cpu->idle.references = 1;
	cpu->idle.affinity = cpu_set_all();
	cpu->idle.cpu = cpu->index;
	cpu->current = &cpu->idle;
	cpu->slice.expired = slice_expired;
	cpu->slice_us = slice;
}

void sched_idle(void)
{
	struct cpu *cpu = this_cpu();

	for (uint64_t turns = 0;; turns++) {
		sched_reap();
		__asm__ volatile("cli");
		if (!cpu->ready.first) /* that the CPU gets on shows in a register: trace/pmi.c */
			__asm__ volatile("sti; hlt" : : "r"(turns));
		else
			schedule();
		__asm__ volatile("sti");
	}
}

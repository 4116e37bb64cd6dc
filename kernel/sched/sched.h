/* SPDX-License-Identifier: MIT */
/* The scheduler: one queue a CPU, round robin with preemption by the timer. */
#pragma once

#include "kernel/lock.h"
#include "kernel/sched/task.h"

/* Makes what runs now (boot) the idle task of this CPU. Once a CPU. */
void sched_init(void);

/* Becomes the idle task: runs whatever is ready, halts when nothing is. Interrupts on. */
_Noreturn void sched_idle(void);

/* Gives the CPU to the next ready task, if any. Any task context; IF = 0. */
void schedule(void);

/* The same, where a reschedule was asked for and preemption is on; interrupts on or off. */
void schedule_if_due(void);

/* The length of a time slice, in microseconds; 1000 unless set (100 at least). */
void sched_set_slice(uint64_t microseconds);

/*
 * Blocks the running task in `queue` until sched_wake_all(). `guard`, which the caller holds,
 * protects the condition that it tested; it is released while the task waits and held again
 * afterwards. Test again then. A task that is killed while it waits does not come back.
 */
void sched_wait(struct run_queue *queue, struct spinlock *guard);

/* Makes all who wait in `queue` ready. Any context but NMI. */
void sched_wake_all(struct run_queue *queue);

/* Sleeps at least so long. */
void task_sleep(uint64_t microseconds);

/* Gives up the CPU though the time slice is not over; returns when it is this task's turn. */
void task_yield(void);

/* Makes `task` come back from user_run(), now or when it next calls it. Any context but NMI. */
void sched_break_user(struct task *task);

/* Context switches of all CPUs so far. */
uint64_t sched_switch_count(void);

/*
 * Takes `task` out of whatever queue it is in, dead: true. If it runs, on another CPU, it is
 * asked to end there: false.
 */
bool sched_remove(struct task *task);

/* Ends a switch on the stack of the task that was switched to. For task_begin(). */
void sched_finish_switch(void);

/* Frees what dead tasks left. Task context, interrupts on. */
void sched_reap(void);

/* switch.asm: saves the running task's callee-saved registers and stack, takes up `to`'s. */
void task_switch(uint64_t *from_rsp, uint64_t to_rsp);

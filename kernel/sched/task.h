/* SPDX-License-Identifier: MIT */
/*
 * Tasks. A task is a kernel stack and what runs on it, and may have a trace context, which its
 * branches go to exactly while it runs (see trace/context.h for the rule).
 */
#pragma once

#include "kernel/time.h"
#include "kernel/trap/trap.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum task_state_kind { TASK_READY, TASK_RUNNING, TASK_BLOCKED, TASK_DEAD };

struct trace_context;
struct user_context;

#define MAX_CPUS 512

/* A set of CPUs by their index. */
struct cpu_set {
	uint64_t words[MAX_CPUS / 64];
};

static inline bool cpu_set_has(const struct cpu_set *set, size_t index)
{
	return set->words[index / 64] >> index % 64 & 1;
}

static inline struct cpu_set cpu_set_of(size_t index)
{
	struct cpu_set set = {{0}};

	set.words[index / 64] = 1ul << index % 64;
	return set;
}

/* Every CPU, also one that is not there. */
static inline struct cpu_set cpu_set_all(void)
{
	struct cpu_set set;

	for (unsigned i = 0; i < MAX_CPUS / 64; i++)
		set.words[i] = UINT64_MAX;
	return set;
}

/* First in, first out; a task is in one queue at most. `last` counts while there is a `first`. */
struct run_queue {
	struct task *first, *last;
};

struct task {
	uint64_t rsp;	     /* while it does not run: what task_switch() left (switch.asm) */
	uint64_t kernel_rsp; /* where ring 3 enters, while a user_run() is under way */
	struct trace_context *trace; /* NULL: not traced */
	bool trace_over;	     /* will not be traced any more */
	struct {
		uint64_t from, to;
	} entered; /* its newest branch that led from ring 3 to the kernel's half */
	struct user_context *context; /* NULL: it has no address space but the kernel's */
	enum task_state_kind state;
	unsigned cpu; /* where it runs, waits to run, or ran last */
	struct cpu_set affinity;
	bool killed; /* by task_kill() */
	bool ended;  /* its joiners may go on */
	unsigned pid;
	char name[16];
	void *stack;
	struct task *next;	   /* in the queue it is in */
	struct run_queue *waiting; /* the queue it is blocked in, if any */
	struct run_queue joiners;  /* who waits for its end */
	struct run_queue sleeping; /* itself, until `sleep` expires or its process has news */
	struct timer sleep;
	unsigned references;	 /* its creator's, and its own life */
	struct trap_frame *user; /* the frame of the user_run() under way */
	atomic_bool user_break;	 /* user_run() shall come back at once; see sched_break_user() */
	struct caught caught;
	uint64_t switches; /* times it was given a CPU */
	void (*entry)(void *argument);
	void *argument;
};

/*
 * A new task, ready to run `entry(argument)`; returning from it ends the task. The caller holds a
 * reference until task_put(). NULL when memory is out. Task or boot context.
 */
struct task *task_create(const char *name, void (*entry)(void *argument), void *argument);

/* The same, but it does not run before task_start(). */
struct task *task_create_stopped(const char *name, void (*entry)(void *), void *argument);
void task_start(struct task *task);

/* Gives the caller's reference back; a dead task's memory goes with the last one. */
void task_put(struct task *task);

/* Ends the running task. */
_Noreturn void task_exit(void);

/*
 * Ends `task`: at once if it waits or is ready, at its next scheduling point if it runs. Its trace
 * is stopped before anything of it is freed. Returns without waiting. Any task's context. Not for
 * the task of a process, which ends by a signal.
 */
void task_kill(struct task *task);

/*
 * Lets `task` run on the CPUs of the set only (at least one of them runs); it moves there at once,
 * the running task before this returns. Any task's context.
 */
void task_set_affinity(struct task *task, struct cpu_set cpus);

/* Waits until `task` is dead. */
void task_join(struct task *task);

/* SPDX-License-Identifier: MIT */
/*
 * Processes. One runs, is stopped, or has ended; a stopped one has its registers in `frame`, its
 * memory in `space`, and is on no CPU. All functions are for task context unless they say more.
 */
#ifndef SPOOR_KERNEL_PROCESS_PROCESS_H
#define SPOOR_KERNEL_PROCESS_PROCESS_H

#include "abi/signal.h"
#include "kernel/mm/space.h"
#include "kernel/sched/task.h"
#include "kernel/trap/user.h"

#define PROCESS_MOST 64 /* at a time, zombies counted */

enum process_state { PROCESS_RUNS, PROCESS_STOPPED, PROCESS_ENDED };

struct process {
	struct user_context context;
	struct space space;
	struct trap_frame frame; /* of ring 3, whenever it is not there */
	struct caught fault;	 /* the newest exception in ring 3 */
	struct task *task;	 /* with the same pid; gone as a task once state is PROCESS_ENDED */
	unsigned pid;
	char name[16];
	bool single_step; /* of the whole program: one SIGTRAP an instruction */

	/* Under the lock of all processes: */
	struct process *next;	/* in the list of all */
	struct process *parent; /* NULL: the kernel, which does not wait */
	unsigned references;
	enum process_state state;
	unsigned tracers;	   /* see process_trace() */
	uint32_t pending;	   /* bit n: signal n */
	unsigned stop_signal;	   /* why it is stopped */
	unsigned resume_signal;	   /* what its tracer made of that */
	bool stop_seen;		   /* by its parent */
	int status;		   /* how it ended, as wait4() says it */
	struct run_queue waiting;  /* itself, whatever it waits for */
	struct run_queue watchers; /* who waits for it to stop or end */
	struct timer alarm;	   /* wakes it */
};

/*
 * Starts the program `name` with `argument` in RDI, as a child of `parent`, or of the kernel if
 * that is NULL. The caller gets a reference in *process. -ENOENT: no such program; -ENOEXEC: not
 * one that can be loaded; -ENOMEM; -EAGAIN: too many processes. A failure leaves nothing behind.
 */
int process_spawn(const char *name, uint64_t argument, struct process *parent,
		  struct process **process);

/* Who has this pid, with a reference for the caller; NULL if nobody. */
struct process *process_find(unsigned pid);

/* Gives a reference back; with the last one the process is forgotten. */
void process_put(struct process *process);

/*
 * Sends a signal, 1 to SIGNALS - 1. It acts when the process is about to return to ring 3, or
 * waits; one that would be ignored is dropped unless somebody traces. Any context but NMI.
 */
void process_signal(struct process *process, unsigned signal);

/* Waits until it is stopped (only if `stops`) or has ended. How it is, as wait4() says it. */
int process_await(struct process *process, bool stops);

/* Kills all processes and waits until the last has ended. Not for a process. */
void process_kill_all(void);

/*
 * While somebody traces a process, each signal but SIGKILL stops it instead of acting, until
 * process_continue(); SIGCONT from elsewhere does not let it go on. Tracers are counted; with the
 * last one gone a stopped process goes on.
 */
void process_trace(struct process *process);
void process_untrace(struct process *process);

/*
 * For a process itself, on its way to ring 3: stands still with `signal` as the reason until
 * somebody lets it go on. Returns the signal that it shall act on, 0 for none; SIGKILL ends the
 * stop too and returns 0.
 */
unsigned process_stop(struct process *self, unsigned signal);

/* Lets a stopped process go on, and act on `signal` unless that is 0. -ESRCH: it is not stopped. */
int process_continue(struct process *process, unsigned signal);

/* The registers of a stopped process; what ring 3 may not set is taken away. -ESRCH. */
int process_get_registers(struct process *process, struct trap_frame *frame);
int process_set_registers(struct process *process, const struct trap_frame *frame);

/* From now on it stops with SIGTRAP behind each instruction, or no more. -ESRCH: not stopped. */
int process_single_step(struct process *process, bool on);

/*
 * Reads or writes the memory of a stopped process, at most a page, also where the process itself
 * may not write. -ESRCH: not stopped; -EIO: not all of it is there.
 */
int process_peek(struct process *process, uint64_t address, void *buffer, size_t bytes);
int process_poke(struct process *process, uint64_t address, const void *buffer, size_t bytes);

#endif

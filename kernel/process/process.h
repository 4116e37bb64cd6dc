/* SPDX-License-Identifier: MIT */
/*
 * Processes. One runs, is stopped, or has ended; a stopped one has its registers in `frame`, its
 * memory in `space`, and is on no CPU. Who traces it: attachment.h. All functions are for task
 * context unless they say more.
 */
#pragma once

#include "abi/signal.h"
#include "drivers/console/uart.h"
#include "kernel/lock.h"
#include "kernel/mm/space.h"
#include "kernel/sched/task.h"
#include "kernel/trace/trace.h"
#include "kernel/trap/user.h"

/* Guards the list of all, and what is said below. Taken before the scheduler's locks. */
extern struct spinlock processes_lock;

#define PROCESS_MOST 64 /* at a time, zombies counted */

/* Where a signal is from: what struct siginfo says besides its number. */
struct signal_cause {
	int32_t code, pid, status;
	uint64_t address;
};

enum process_state { PROCESS_RUNS, PROCESS_STOPPED, PROCESS_ENDED };

struct process {
	struct user_context context;
	struct space space;
	struct trap_frame frame; /* of ring 3, whenever it is not there */
	struct caught fault;	 /* the newest exception in ring 3 */
	struct task *task;	 /* with the same pid; gone as a task once state is PROCESS_ENDED */
	unsigned pid;
	char name[24];
	bool privileged;  /* may see kernel addresses */
	bool in_call;	  /* of the system */
	bool call_is_32;  /* the newest one was INT 80H */
	unsigned stepped; /* STEP_... that its tracers wait for */
	struct trace_account
		account;       /* of what it has in trace buffers; its limit: RLIMIT_MEMLOCK */
	uint64_t account_most; /* what the limit can be set to */

	/* Under the lock of all processes: */
	struct process *next;	/* in the list of all */
	struct process *parent; /* NULL: the kernel, which does not wait */
	unsigned references;
	enum process_state state;
	struct attachment *attachments;	     /* who traces it */
	struct attachment *traced;	     /* whom it traces */
	uint32_t pending;		     /* bit n: signal n */
	struct signal_cause causes[SIGNALS]; /* of those that are pending */
	uint32_t blocked;		     /* bit n: signal n waits; changed by itself only */
	struct sigaction actions[SIGNALS];   /* changed by itself only */
	unsigned caught; /* the signal whose handler runs as soon as no call does, or 0 */
	struct signal_cause caught_cause;
	unsigned resume_signal; /* what its tracers made of one that was about to act */
	bool averted;
	bool continued;		   /* by SIGCONT or SIGKILL since a signal was taken */
	bool ends;		   /* it stops for PTRACE_EVENT_EXIT and nothing else */
	unsigned job_stop;	   /* the signal that stopped it without a tracer, or 0 */
	bool stop_seen;		   /* that, by its parent */
	int stop_status;	   /* the newest stop, as wait4() says it */
	int status;		   /* how it ended, as wait4() says it */
	struct run_queue stopped;  /* itself, while it is stopped */
	struct run_queue watchers; /* who waits for it to stop or end */
};

/*
 * Starts the program `name` with `argument` in RDI, as a child of the kernel; if `privileged` it
 * may see kernel addresses, as may its children. The caller gets a reference in *process. -ENOENT:
 * no such program; -ENOEXEC: not one that can be loaded; -ENOMEM; -EAGAIN: too many processes. A
 * failure leaves nothing.
 */
int process_spawn(const char *name, uint64_t argument, bool privileged, struct process **process);

/* The process with this pid, with a reference for the caller; NULL if there is none. */
struct process *process_find(unsigned pid);

/* Gives a reference back; with the last one the process is forgotten. */
void process_put(struct process *process);

/*
 * Sends a signal, 1 to SIGNALS - 1. It acts when the process is about to return to ring 3, or
 * waits; one that would be ignored is dropped unless somebody traces. Any context but NMI.
 */
void process_signal(struct process *process, unsigned signal);

/* The same with where it is from; process_signal() says SI_KERNEL. */
void process_signal_from(struct process *process, unsigned signal,
			 const struct signal_cause *cause);

/* What a handler or a debugger learns of a signal. */
struct siginfo signal_info(unsigned signal, const struct signal_cause *cause);

/* Called for each line that a process writes, besides the console; NULL: nothing. Task context. */
extern void (*process_said)(const struct process *process, const char *line);

/*
 * For a system call that keeps something for processes. process_forked() acts for the child of the
 * running process, which has not started; process_ends() at the end of one, and frees its page
 * `root`, which CR3 does not hold any more. Boot sets both. Task context, no lock held.
 */
extern void (*process_forked)(struct process *child);
extern void (*process_ends)(struct process *process, uint64_t root);

/*
 * The UART of the line that a process can open; one that is not open is COM2, opened when it is
 * first needed. For a test that has another, while no process has the line.
 */
extern struct uart line_uart;

/* A system call of `self`; `argument`: RDI, RSI, RDX, R10, R8, R9. Returns what RAX gets. */
typedef long system_call(struct process *self, const uint64_t *argument);

/* Makes `call` what the table's call `number` does; before that it is -ENOSYS. Boot. */
void syscall_register(uint64_t number, system_call *call);

/* Kills all processes and waits until the last has ended. Not for a process. */
void process_kill_all(void);

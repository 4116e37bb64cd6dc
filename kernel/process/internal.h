/* SPDX-License-Identifier: MIT */
/* Between the files of this folder. */
#ifndef SPOOR_KERNEL_PROCESS_INTERNAL_H
#define SPOOR_KERNEL_PROCESS_INTERNAL_H

#include "kernel/process/process.h"

/* The list of all, newest first. Under the lock. */
extern struct process *processes;

/* The function that the task of a process runs; the argument is the process. */
typedef void process_entry(void *process);

/* As process_spawn(); a child of `parent`, or of the kernel if that is NULL. */
int process_start(const char *name, uint64_t argument, struct process *parent, bool privileged,
		  process_entry *entry, struct process **process);

/* A child that goes on where `parent` is, its call returning 0. Returns its pid, or an error. */
long process_fork(struct process *parent);

/* The end of the running process; `status` as wait4() says it. */
_Noreturn void process_end(struct process *self, int status);

/* Stops until nobody stops it any more; under the lock, which is released meanwhile. */
void stand_still(struct process *self);

/* Lets a stopped one go on if nobody stops it. Under the lock. */
void process_release(struct process *process);

#define BIT(signal) (1u << (signal))

/* Actions of signals where no process traces; all others end the process. */
#define STOPPING (BIT(SIGSTOP) | BIT(SIGTSTP) | BIT(SIGTTIN) | BIT(SIGTTOU))
#define IGNORED	 (BIT(SIGCHLD) | BIT(SIGCONT) | BIT(SIGURG) | BIT(SIGWINCH))

/* process_signal_from() under the lock. The cause of one that is pending already stays. */
void signal_post(struct process *process, unsigned signal, const struct signal_cause *cause);

/* SIGCHLD to a parent or a tracer, for a process whose status as wait4() says it is `status`. */
void signal_post_child(struct process *to, const struct process *process, int status);

/* Acts on what is pending: stops, or does not return. */
void signals_act(struct process *self);

/*
 * Sleeps until a signal, the alarm or a child's change wakes it. The caller tests its condition
 * again. Stops or ends if a signal says so. Under the lock, which is released meanwhile; `flags`
 * are those of its spin_lock().
 */
void process_sleep(struct process *self, uint64_t flags);

long process_wait(struct process *self, int64_t pid, uint64_t status, uint64_t options);

/* The system call that frame.rax names. Its result. */
long syscall_do(struct process *self);

#endif

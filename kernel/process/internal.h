/* SPDX-License-Identifier: MIT */
/* Between the files of this folder. */
#pragma once

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

/* What signals usually do where no process traces; all others end the process. */
#define STOPPING (BIT(SIGSTOP) | BIT(SIGTSTP) | BIT(SIGTTIN) | BIT(SIGTTOU))
#define IGNORED	 (BIT(SIGCHLD) | BIT(SIGCONT) | BIT(SIGURG) | BIT(SIGWINCH))

/* Whether `signal` does nothing, or has a handler, where no process traces. Under the lock. */
bool signal_is_ignored(const struct process *process, unsigned signal);
bool signal_has_handler(const struct process *process, unsigned signal);

/* Those that are pending and not blocked; bit n: signal n. Under the lock. */
uint32_t signals_to_act(const struct process *process);

/* process_signal_from() under the lock. The cause of one that is pending already stays. */
void signal_post(struct process *process, unsigned signal, const struct signal_cause *cause);

/* SIGCHLD to a parent or a tracer, for a process whose status as wait4() says it is `status`. */
void signal_post_child(struct process *to, const struct process *process, int status);

/*
 * The same for one that the process made itself and can neither block nor ignore: it has no handler
 * then, and with `by_default` in no case. Without the lock.
 */
void signal_force(struct process *process, unsigned signal, const struct signal_cause *cause,
		  bool by_default);

/*
 * The handler of self->caught runs next: its frame is on the stack of ring 3, or SIGSEGV is sent
 * where that has no room. Without the lock.
 */
void handler_enter(struct process *self);

/*
 * Acts on what is pending: stops, or does not return. In a system call a handler does not begin:
 * self->caught says that the call has to end.
 */
void signals_act(struct process *self);

/*
 * Sleeps until a signal, task->sleep or a child's change wakes it. The caller tests its condition
 * again. Stops or ends if a signal says so. True: a handler is to run, and the call ends. Under the
 * lock, which is released meanwhile; `flags` are those of its spin_lock().
 */
bool process_sleep(struct process *self, uint64_t flags);

/* The result of a call that is made once more after the handler that interrupted it. */
#define CALL_AGAIN (-512)

/* After such an interruption: CALL_AGAIN if the handler's SA_RESTART says so, else -EINTR. */
long interrupted_result(const struct process *self);

/* line.c: the calls for the serial line, whose descriptor is LINE_FD. */
#define LINE_FD 3
system_call call_open, call_close, call_read, call_poll, call_write_line;

long process_wait(struct process *self, int64_t pid, uint64_t status, uint64_t options);

/* handler.c */
system_call call_rt_sigaction, call_rt_sigprocmask, call_rt_sigreturn;

/* The system call that frame.rax names, by SYSCALL or by INT 80H of 32-bit code. Its result. */
long syscall_do(struct process *self);
long syscall_do_32(struct process *self);

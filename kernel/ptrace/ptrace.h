/* SPDX-License-Identifier: MIT */
/*
 * Tracing processes, for kernel tasks and for the call SYS_ptrace. What each function means to a
 * process is said in docs/ptrace-bts.2. Task context, no spinlock held; an attachment is used by
 * one caller at a time. Branches of a kernel task, or of a process for a kernel task, are
 * kernel/trace/trace.h.
 */
#pragma once

#include "kernel/process/process.h"

struct attachment;

/* Makes SYS_ptrace a system call. Boot. */
void ptrace_init(void);

/*
 * Attaches a tracer, the kernel if that is NULL, to a process of which the caller has a reference;
 * one that is not seized (`exclusive`) is stopped with SIGSTOP. -EPERM, -ENOMEM; -ESRCH: it ended.
 * attachment_end() ends it.
 */
int ptrace_attach(struct process *tracer, struct process *tracee, bool exclusive,
		  struct attachment **result);

/*
 * Lets a process that is stopped for this tracer go on; `step`: STEP_... (attachment.h), or 0.
 * `signal` acts, or is sent. -ESRCH: it is not stopped.
 */
int ptrace_continue(struct attachment *attachment, unsigned signal, unsigned step);

/* Stops it with SIGTRAP. -ESRCH: it ended. */
int ptrace_interrupt(struct attachment *attachment);

/* The registers of a stopped process; what ring 3 may not set is taken away. -ESRCH. */
int ptrace_get_frame(struct attachment *attachment, struct trap_frame *frame);
int ptrace_set_frame(struct attachment *attachment, const struct trap_frame *frame);

/*
 * Reads or writes the memory of a stopped process, at most a page, also where the process itself
 * may not write. -ESRCH: not stopped; -EIO: not all of it is there.
 */
int ptrace_peek(struct attachment *attachment, uint64_t address, void *buffer, size_t bytes);
int ptrace_poke(struct attachment *attachment, uint64_t address, const void *buffer, size_t bytes);

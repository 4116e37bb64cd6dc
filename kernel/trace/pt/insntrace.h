/* SPDX-License-Identifier: MIT */
/*
 * Tracing instructions by Intel Processor Trace: the interface of its owner, after Fuchsia's
 * insntrace. An owner has one session, in one mode, with buffers of one size:
 *
 *	initialize, allocate_buffer for each trace, start, stop, read_buffer, terminate
 *
 * INSNTRACE_CPUS traces what runs on each CPU, INSNTRACE_THREADS ring 3 of each thread that was
 * assigned a buffer, on whatever CPU it runs.
 *
 * A CPU has one trace at a time. A session of CPUs, of which there is one, has every CPU while it
 * is started. Of a thread's buffers that of the owner with the most rights has the packets: the
 * kernel, a process that may see kernel addresses, any other; of several such the oldest. A buffer
 * that does without has INSNTRACE_GAP, and a stream -EPIPE at that place; so where branches of a
 * CPU are traced that are not recorded beside Intel PT.
 *
 * `owner` is the account that is charged, NULL the kernel's; its address says whose the session is.
 * -EBADFD: a call that the session's state does not allow, or the caller has no session. A call
 * that fails changes nothing. All functions: task context, interrupts on, no spinlock held. An
 * owner makes one call at a time.
 */
#pragma once

#include "abi/errno.h"
#include "abi/insntrace.h"

#include <stdbool.h>
#include <stddef.h>

struct task;
struct trace_account;

extern const struct ptrace_unit ptrace_pt_unit;
extern const struct export_unit export_pt;

/*
 * Begins a session of `traces` buffers, in INSNTRACE_CPUS as many as there are CPUs. -EBUSY:
 * for one of CPUs: another has such a one, or branches are traced where the processor cannot do
 * both: trace_holder() names it; -EBADFD: the caller has one; -EOPNOTSUPP: no Intel PT with ToPA;
 * -EINVAL: a mode or a number out of range; -ENOMEM.
 */
int insntrace_initialize(struct trace_account *owner, unsigned mode, unsigned traces);

/* Frees all buffers and ends the session. -EBADFD: or it is started, or a thread has a buffer. */
int insntrace_terminate(struct trace_account *owner);

/* As it was given to insntrace_initialize(), and what became of it. */
int insntrace_get_allocation(struct trace_account *owner, struct insntrace_allocation *allocation);

/*
 * `cr3_match` is what `config->address_space` means: the processor compares it with CR3.
 * A buffer for the lowest descriptor without one, which is returned; in INSNTRACE_CPUS that is the
 * CPU's index. -EBADFD: or the trace is started; -EINVAL: a value out of range, or a buffer of
 * another size than the session's first; -EOPNOTSUPP: packets, filters or a table that the
 * processor does not have, or in INSNTRACE_THREADS OS or CR3Filter; -ENOSPC: all have one; -ENOMEM:
 * no contiguous memory, or over the account's limit.
 */
int insntrace_allocate_buffer(struct trace_account *owner, const struct insntrace_config *config,
			      uint64_t cr3_match);

/*
 * Frees the page `root` that CR3 held while a process ran, which has ended; but keeps it from the
 * next process while a buffer's filter names it, packets in a process's buffer may name it, or all
 * are kept. Any context but NMI.
 */
void insntrace_free_root(uint64_t root);

/*
 * From here on all are kept, or not, and what no buffer needs is freed: the packets of the kernel's
 * own session name each process by its root.
 */
void insntrace_keep_roots(bool all);

/*
 * -EBADFD: or the trace is started, in INSNTRACE_THREADS: and a thread has the buffer (free: or, in
 * either case alone); for these: -EINVAL: no such descriptor; -ENXIO: no buffer.
 */
int insntrace_free_buffer(struct trace_account *owner, unsigned descriptor);
int insntrace_get_buffer_state(struct trace_account *owner, unsigned descriptor,
			       struct insntrace_state *state);

/* The same, in any state. */
int insntrace_get_buffer_config(struct trace_account *owner, unsigned descriptor,
				struct insntrace_config *config);

/*
 * Finds what is `offset` bytes after the oldest byte of a buffer: `*bytes` says how many of at most
 * `*bytes` are contiguous at `*from`, 0 at the end. They stay until the next insntrace_start(),
 * insntrace_free_buffer() or insntrace_terminate(). Errors as insntrace_get_buffer_state().
 */
int insntrace_read_buffer(struct trace_account *owner, unsigned descriptor, uint64_t offset,
			  const void **from, size_t *bytes);

/*
 * INSNTRACE_STREAM, started or not: finds the oldest bytes that were not taken, at most `*bytes`;
 * 0: the processor has filled no chunk since, or has been stopped and all is taken. While they are
 * not taken the trace stops rather than overwrite them: INSNTRACE_GAP. -EPIPE: it has stopped here,
 * and goes on once 0 bytes were taken; -EINVAL: or another buffer; -EBADFD, -ENXIO: as above.
 */
int insntrace_read_stream(struct trace_account *owner, unsigned descriptor, const void **from,
			  size_t *bytes);

/* Takes `bytes` that insntrace_read_stream() found, or 0 after its -EPIPE. Its other errors. */
int insntrace_take_stream(struct trace_account *owner, unsigned descriptor, size_t bytes);

/*
 * Starts on every CPU, or all threads that have a buffer, with empty buffers. -EBADFD: or it is
 * started, or a descriptor, or every thread, has no buffer; for CPUs: -EBUSY: a CPU is traced
 * already, not by this interface; -EIO: a CPU refuses `control`. A failure leaves none started.
 */
int insntrace_start(struct trace_account *owner);

/* -EBADFD: or it is not started. */
int insntrace_stop(struct trace_account *owner);

/*
 * INSNTRACE_THREADS, started or not: the buffer is emptied and becomes that of `task`, of which the
 * caller holds a reference, until it is released, also where the task ends before. -EBADFD: or the
 * other mode; -EBUSY: the buffer has a thread, or the thread a buffer of this session, or a
 * tracer of branches where the processor cannot do both; -ESRCH: the task has ended; -ENOMEM;
 * -EINVAL, -ENXIO: as above.
 */
int insntrace_assign_thread(struct trace_account *owner, unsigned descriptor, struct task *task);

/* -EBADFD: or the buffer has no thread; -EINVAL, -ENXIO: as above. */
int insntrace_release_thread(struct trace_account *owner, unsigned descriptor);

/*
 * `child`, which has not run yet, is the running task's: it gets a buffer of each session of which
 * the running task has one that says so, whichever process owns the session.
 */
void insntrace_inherit(struct task *child);

/* The owner is at its end: stops every CPU, then frees everything. Nothing without a session. */
void insntrace_owner_ended(struct trace_account *owner);

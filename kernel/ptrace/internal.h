/* SPDX-License-Identifier: MIT */
/* Between the files of this folder. */
#pragma once

#include "kernel/process/attachment.h"
#include "kernel/ptrace/ptrace.h"

struct ptrace_call {
	struct process *self;
	struct attachment *at; /* NULL for those that need none: request.c */
	uint64_t request, pid, address, data;
	const struct ptrace_unit *of;
	struct tracer *tracer; /* its buffer of that unit, if there is one */
};

/* The words of the caller's code. */
static inline size_t ptrace_word_bytes(const struct ptrace_call *call)
{
	return call->self->call_is_32 ? sizeof(uint32_t) : sizeof(uint64_t);
}

/* A request's function. Returns the value of the call, errors as in the manual pages; -ENODEV
   becomes -EOPNOTSUPP. */
typedef long ptrace_request(const struct ptrace_call *call);

/*
 * The state that a request needs of the tracee: any; traced by the caller; that and stopped; that
 * and stopped or ended; that and with a buffer of the request's unit.
 */
enum ptrace_need { NEEDS_NOTHING, NEEDS_TRACED, NEEDS_STOPPED, NEEDS_READABLE, NEEDS_BUFFER };

struct ptrace_row {
	uint16_t request, need;
	ptrace_request *perform;
};

#define PTRACE_ROWS(of_table) .rows = (of_table), .count = sizeof(of_table) / sizeof((of_table)[0])

/* The requests for the buffer of a trace unit: a pid may be a CPU's, or the caller's own. */
struct ptrace_unit {
	unsigned unit;	  /* TRACE_... */
	unsigned record;  /* bytes: ptrace_read_newest() */
	int32_t all_cpus; /* the pid that is all CPUs at once; 0: none is */
	const struct ptrace_row *rows;
	unsigned count;
	void (*init)(void); /* boot; NULL: nothing. For a system call that the unit has apart */
};

/* inspect.c */
ptrace_request ptrace_set_options, ptrace_get_message, ptrace_get_siginfo;
ptrace_request ptrace_get_registers, ptrace_set_registers, ptrace_peek_register;
ptrace_request ptrace_poke_register, ptrace_peek_word, ptrace_poke_word;

/* inspect.c: the recorder of all CPUs, trace/freeze.h. */
ptrace_request ptrace_freeze, ptrace_freeze_status;

/* bts_read.c: of a buffer that there is. */
ptrace_request ptrace_bts_size, ptrace_bts_get, ptrace_bts_read;

/* request.c: CLEAR, of each CPU; READ of a unit that has trace_read(), READ_MOST bytes at most. */
enum { READ_MOST = 1024 };
ptrace_request ptrace_clear, ptrace_read_newest;

/* Room was made: what stopped when its buffer was full goes on, on each CPU. */
void ptrace_resume(const struct ptrace_call *call);

/* A CONFIG with a signal that cannot be sent; without the flag SIGNAL none is looked at. */
bool ptrace_is_signal_refused(uint64_t flags, uint32_t signal);

/* Decides what a CONFIG left open: the view is that of ring 3, the signal `usual`, or none. */
void ptrace_fill_in(uint64_t *flags, uint32_t *signal, uint32_t usual);

/* -EFAULT unless `bytes` can be stored at `user`: nothing is changed. */
int ptrace_check_writable(uint64_t user, size_t bytes);

/* `bytes`, once they are stored at the call's address; or -EFAULT. */
long ptrace_give(const struct ptrace_call *call, const void *from, size_t bytes);

/* Whether the tracer has the right to kernel addresses; what its buffers are charged to. */
bool ptrace_may_see_kernel(const struct attachment *attachment);
struct trace_account *ptrace_account(const struct attachment *attachment);

/* A tracer's `overflowed`: the tracee of its attachment stops as soon as it looks. */
void ptrace_stop_at_threshold(struct tracer *tracer, void *attachment);

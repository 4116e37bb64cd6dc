/* SPDX-License-Identifier: MIT */
/*
 * One tracer of one process, or of one CPU. It is made and ended by the tracer, and holds a
 * reference to the process; while it is linked the tracer lives.
 */
#pragma once

#include "kernel/process/process.h"
#include "kernel/trace/unit.h"

#include <stdbool.h>
#include <stdint.h>

/* One instruction; all of them up to a taken branch; a system call is either. */
enum { STEP_INSTRUCTION = 1, STEP_BLOCK = 2 };

/* The buffer of one trace unit for this tracer. All but `fresh` changes under the lock. */
struct recording {
	struct tracer *tracer; /* NULL: no buffer */
	struct tracer *fresh;  /* that is to replace it, during a request */
	bool stops;	       /* when it is full: what is read makes room, and it goes on */

	/* Of a buffer that is held: the tracee stops with this event, or is sent the signal. */
	int event;
	unsigned signal;
	bool to_tracee; /* it is sent the signal, and does not stop */
	bool to_tracer; /* who is sent the signal when the tracee stops */
	bool told;	/* the stop, or a signal sent, is for this buffer */

	_Alignas(8) unsigned char config[88]; /* as the unit's requests keep it: kernel/ptrace */
};

/* While all CPUs are read: the samples of one that wait for the turn of their time. */
struct cpu_reading {
	size_t next, left;  /* to be copied here: from that sample on, so many */
	size_t given;	    /* to the reader */
	unsigned at, count; /* of those that are here */
	_Alignas(8) unsigned char samples[1536];
};

struct attachment {
	struct process *tracer;	     /* NULL: the kernel */
	struct process *tracee;	     /* NULL: a CPU's, or a process that traces itself */
	struct task *task;	     /* that is traced; NULL: `cpu` is */
	unsigned cpu;		     /* from MAX_CPUS on: of all that are traced at once */
	struct attachment *next_cpu; /* of these, during a request */
	bool exclusive;		     /* made by ATTACH or TRACEME */

	/* Under the lock of all processes: */
	struct attachment *next_of_tracer, *next_of_tracee;
	int stop;      /* it is stopped for this tracer: the status of wait4(); 0: it is not */
	bool seen;     /* that, by the tracer's wait4() */
	bool delivery; /* the stop is for a signal that is about to act */
	int due;       /* a stop to come */
	unsigned step; /* STEP_...: due once that is done; 0: none is */
	struct signal_cause cause; /* of the stop */
	uint32_t options;	   /* PTRACE_O_... */
	uint64_t message;	   /* of the newest event */
	unsigned buffers;	   /* bits of units that have one */
	struct recording recordings[TRACE_UNITS];

	struct cpu_reading reading; /* during a request */
};

/* --- stop.c; under the lock --- */

/* Begins the stops that are due, or lets a process that runs do so soon. Any context but NMI. */
void attachments_look(struct process *process);

/* Some stop is due that has not begun, or a signal of a buffer for its own process. */
bool attachments_due(const struct process *self);

/* Stops if a stop is due; false: none was. */
bool attachments_stop(struct process *self);

/* Sends a process that traces itself the signals of its buffers that are held. */
void attachments_tell_own(struct process *self);

/* Stops for every tracer before `signal` acts. Returns the signal to act instead, or 0. */
unsigned attachments_deliver(struct process *self, unsigned signal);

/* The stop is over for this tracer; `signal` acts, or is sent (ptrace/ptrace.h). */
void attachment_finish(struct attachment *attachment, unsigned signal);

/* --- stop.c; without the lock --- */

/* What it records of itself goes on where the signals are neither pending nor blocked any more. */
void attachments_resume_own(struct process *self);

/*
 * `fresh` (NULL: none) is the unit's buffer from here on. The one that there was is freed, and its
 * configuration is all zero.
 */
void attachment_replace(struct attachment *attachment, unsigned unit, struct tracer *fresh);

/* A recording whose stop this is goes on. Call it before attachment_finish(). */
void attachment_resume(struct attachment *attachment);

/* Ends it; `signal` acts on a tracee that is stopped for it. */
void attachment_end(struct attachment *attachment, unsigned signal);

/* --- attachment.c; under the lock --- */

/* `tracer` (NULL: the kernel) traces `tracee` from here on. -ESRCH: it ended; -EPERM; -ENOMEM. */
int attachment_link(struct process *tracer, struct process *tracee, bool exclusive,
		    struct attachment **attachment);

/* Nobody is the tracer, and nothing the tracee. */
void attachment_unlink(struct attachment *attachment);

/*
 * `child`, which has not started, is traced by all tracers of `parent` that asked for it; a stop of
 * both is due. -ENOMEM: nothing has changed.
 */
int attachments_fork(struct process *parent, struct process *child);

/* `self` ends with `status`: no stop but that of PTRACE_O_TRACEEXIT is due any more. */
void attachments_exit(struct process *self, int status);

/* --- attachment.c; without the lock --- */

/* A page of zeroes; NULL when memory is out. */
struct attachment *attachment_create(void);

void attachment_free(struct attachment *attachment);

/* SPDX-License-Identifier: MIT */
/*
 * One tracer of one process, or of one CPU. It is made and ended by the tracer, and holds a
 * reference to the process; while it is linked the tracer lives.
 */
#ifndef SPOOR_KERNEL_PROCESS_ATTACHMENT_H
#define SPOOR_KERNEL_PROCESS_ATTACHMENT_H

#include "abi/ptrace_bts.h"
#include "abi/ptrace_pebs.h"
#include "kernel/process/process.h"

#include <stdbool.h>
#include <stdint.h>

/* One instruction; all of them up to a taken branch; a system call is either. */
enum { STEP_INSTRUCTION = 1, STEP_BLOCK = 2 };

/* Samples of one CPU that wait for the turn of their time, while those of all are read. */
struct samples_reading {
	size_t next, left;  /* to be copied here: from that sample on, so many */
	size_t given;	    /* to the reader */
	unsigned at, count; /* of those that are here */
	_Alignas(8) unsigned char samples[1536];
};
_Static_assert(sizeof(((struct samples_reading *)0)->samples) >=
		       sizeof(struct ptrace_pebs_sample) + 32 * sizeof(struct ptrace_pebs_branch),
	       "a sample");

struct attachment {
	struct process *tracer;	     /* NULL: the kernel */
	struct process *tracee;	     /* NULL: a CPU's, or a process that traces itself */
	struct task *task;	     /* that is traced; NULL: `cpu` is */
	unsigned cpu;		     /* from MAX_CPUS on: of all that are traced at once */
	struct attachment *next_cpu; /* of these, during a request */
	bool exclusive;		     /* made by ATTACH or TRACEME */

	/* Under the lock of all processes: */
	struct attachment *next_of_tracer, *next_of_tracee;
	int stop;	   /* it is stopped for this tracer: the status of wait4(); 0: it is not */
	bool seen;	   /* that, by the tracer's wait4() */
	bool delivery;	   /* the stop is for a signal that is about to act */
	int due;	   /* a stop to come */
	unsigned step;	   /* STEP_...: due once that is done; 0: none is */
	bool told;	   /* the stop, or a signal sent, is for the trace, which is held */
	bool told_samples; /* the same for the samples */
	struct signal_cause cause; /* of the stop */
	uint32_t options;	   /* PTRACE_O_... */
	uint64_t message;	   /* of the newest event */
	struct tracer *trace;	   /* NULL: no buffer; changed by the tracer only */
	struct ptrace_bts_config config;
	uint64_t requested;	/* size that CONFIG was given; config.size: what it got */
	struct tracer *samples; /* NULL: no buffer; changed by the tracer only */
	struct tracer *fresh;	/* that is to replace them, during a request */
	struct ptrace_pebs_config samples_config;
	struct samples_reading reading; /* during a request */
	struct tracer *newest; /* by the LBR stack; NULL: none; changed by the tracer only */
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

/* Frees its buffer of branches, that of samples, its stack of the newest, if it has one. */
void attachment_free_trace(struct attachment *attachment);
void attachment_free_samples(struct attachment *attachment);
void attachment_free_newest(struct attachment *attachment);

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

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Samples of counted events by PEBS: the interface of the readers, with what trace.h says of all
 * tracers. A tracer counts one event by its own counter, which runs while its task (or
 * anything on its CPU) does: the processor records the registers at every period + 1st event.
 * Counters are few: a tracer for which none is left is refused, and the refusal names the holder.
 *
 * With `interrupt` the counter interrupts at each period + 1st event. A sample has the registers
 * and the newest branches of that moment, some instructions later. This needs no PEBS, and any
 * event will do. Where the task is switched out before the interrupt arrives the sample has no
 * registers.
 *
 * A view is of the instructions that are counted. Without TRACE_KERNEL a sample has no address of
 * the kernel's half but those that ring 3 has in its own registers: after a system call, for one,
 * IP and registers are the kernel's, and absent.
 */
#pragma once

#include "abi/ptrace_pebs.h"
#include "kernel/trace/trace.h"

#include <stdint.h>

struct task;

extern const struct ptrace_unit ptrace_pebs_unit;

struct pebs_options {
	uint32_t event;	 /* PTRACE_PEBS_INST_RETIRED and the like */
	bool raw;	 /* `event` has bits of PTRACE_PEBS_RAW_BITS instead */
	bool interrupt;	 /* samples of what the counter's interrupt interrupts, not by PEBS */
	bool count;	 /* counts, and takes no samples: period 0, TRACE_STOP, size 8 or more */
	uint64_t period; /* 2 (with TRACE_KERNEL 2000) to PMU_LARGEST_PERIOD: events before the one
			    that is sampled */
	uint64_t counters;	      /* bits of those to choose from; 0: any */
	unsigned view;		      /* TRACE_USER, TRACE_KERNEL; neither: TRACE_USER */
	bool privileged;	      /* may see kernel addresses; TRACE_KERNEL needs it */
	bool cut_size;		      /* be content with what the account has left */
	enum trace_overflow overflow; /* TRACE_WRAP is refused: PEBS has no circular mode */
	unsigned branches; /* newest, in each sample: more than the processor keeps: as many */
	unsigned kinds;	   /* of these, as of branch_stack_options; 0: every kind */
	bool call_stack;   /* instead of them the calls that have not returned */
	size_t size; /* of the buffer: bytes of samples with their branches; one at the least */
	size_t threshold;	      /* TRACE_SIGNAL: samples; 0: as many as there is room for */
	trace_overflowed *overflowed; /* TRACE_SIGNAL needs it */
	void *argument;
	struct trace_account *account; /* NULL: the kernel's own, not charged */
	struct tracer *replaces;       /* one that will be detached: its charge does not count */
	char *holder; /* -EBUSY: gets a name, of PTRACE_PEBS_HOLDER bytes; or NULL */
};

/*
 * Attaches a tracer to `task` (of which the caller holds a reference, or is it), or if that is NULL
 * to everything that runs on CPU `cpu`, and starts to take samples, at once if it runs. -ENODEV: no
 * PEBS, or of one that counts no counters; -EINVAL: a value out of range, no such CPU, event or
 * counter, a reserved bit of a raw event, or CMASK, INV or E
 * of a sampled one, or branches or `interrupt` of one that counts; -EOPNOTSUPP: TRACE_WRAP, or
 * TRACE_SIGNAL without a callback, or an event that this processor lacks, or branches, where its
 * records have none (with `interrupt`: where the stack cannot freeze) or branch_stack_attach()
 * refuses them; -ENOENT: a raw event that this processor is not known to sample precisely; -EPERM:
 * kernel addresses without the right to them; -ENOMEM: no memory, or over the account's limit;
 * -ESRCH: it has ended; -EBUSY: another has the counters that would do, or the PEBS half of the
 * Debug Store, on some CPU, or tracers of the newest branches want others. A failure leaves
 * nothing. Tracers of a CPU are no others of counters: they wait while a task runs whose tracers
 * need what they have.
 */
int pebs_attach(struct task *task, unsigned cpu, const struct pebs_options *options,
		struct tracer **tracer);

/* Bytes of a sample with so many branches, or with as many as the processor keeps. */
size_t pebs_sample_size(unsigned branches);

/* Samples that can be read. */
size_t pebs_available(struct tracer *tracer);

/*
 * Copies at most `most` of the oldest samples, oldest first, each with its branches after it,
 * unless `samples` is NULL, removes them; returns how many.
 */
size_t pebs_read(struct tracer *tracer, void *samples, size_t most);

/* Copies at most `most` samples from the one at `from` on, 0 being the oldest, and leaves them. */
size_t pebs_peek(struct tracer *tracer, size_t from, void *samples, size_t most);

struct pebs_status {
	unsigned view;
	enum trace_overflow overflow;
	size_t size; /* bytes, whole samples */
	size_t sample_size;
	unsigned branches; /* of each */
	size_t available;  /* samples */
	uint64_t events;   /* of one that counts */
	uint64_t lost;	   /* no room; the kernel's instructions; no knowing whose they are */
	bool truncated;	   /* the hardware ran out of room before anyone could make some */
	bool blocked;	   /* on some CPU another had what it needs: `holder` */
	bool held;	   /* TRACE_SIGNAL: waits for trace_resume() */
	bool full;	   /* TRACE_STOP: has stopped */
	char holder[PTRACE_PEBS_HOLDER];
};

void pebs_status(struct tracer *tracer, struct pebs_status *status);

/* True if the processor takes samples and the kernel knows their format. After boot, any context.
 */
bool pebs_present(void);

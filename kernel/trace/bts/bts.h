/* SPDX-License-Identifier: MIT */
/*
 * Tracing branches by BTS: the interface of the readers, with what trace.h says of all tracers.
 *
 * Records that are missing are counted in the status, and, for a tracer that has stamps, marked by
 * a record PTRACE_BTS_GAP in their place: before the first record that a reader gets, between two,
 * or after the last. Reading loses no record but those of the reader's execution on the CPU
 * that it disturbs.
 */
#pragma once

#include "abi/ptrace_bts.h"
#include "kernel/trace/trace.h"

#include <stdint.h>

struct task;

extern const struct ptrace_unit ptrace_bts_unit;
extern const struct export_unit export_bts;

struct bts_options {
	unsigned view;	  /* TRACE_USER, TRACE_KERNEL; neither: TRACE_USER */
	bool privileged;  /* may see kernel addresses; TRACE_KERNEL needs it */
	bool stamps;	  /* also record where the trace of a task begins and ends: SCHED */
	bool cut_size;	  /* be content with what the account has left */
	bool no_branches; /* record nothing but stamps */
	bool paused;	  /* record nothing until bts_change() */
	enum trace_overflow overflow;
	size_t size;	  /* of the ring, bytes: a record at least; TRACE_STOP with stamps: four */
	size_t threshold; /* TRACE_SIGNAL: records; 0: room for 170 more, or half of a small ring */
	trace_overflowed *overflowed; /* TRACE_SIGNAL; NULL makes it TRACE_WRAP */
	void *argument;
	struct trace_account *account; /* NULL: the kernel's own, not charged */
	struct tracer *replaces; /* a tracer whose charge does not count: it will be detached */
};

/*
 * Attaches a tracer to `task` (of which the caller holds a reference, or is it), or if that is NULL
 * to everything that runs on CPU `cpu`, and starts to record, at once if it runs. -ENODEV: no BTS;
 * -EINVAL: a value out of range, no such CPU; -EPERM: kernel addresses without the right to them;
 * -ENOMEM: no memory, or over the account's limit; -ESRCH: it has ended. A failure leaves nothing.
 */
int bts_attach(struct task *task, unsigned cpu, const struct bts_options *options,
	       struct tracer **tracer);

/* Records that can be read. */
size_t bts_available(struct tracer *tracer);

/* The same. With `keep` none of them is overwritten until the next call of either; one reader. */
size_t bts_keep(struct tracer *tracer, bool keep);

/* Copies at most `most` of the oldest records, oldest first, removes them; returns how many. */
size_t bts_read(struct tracer *tracer, struct ptrace_bts_record *records, size_t most);

/* bts_read(); predicted[n] says of branch n whether the processor had predicted it. */
size_t bts_read_predicted(struct tracer *tracer, struct ptrace_bts_record *records, bool *predicted,
			  size_t most);

/*
 * Copies at most `most` records from `*position` on (0: from the oldest) and leaves them; returns
 * how many. `*position` is then that of the next record, to go on with.
 */
size_t bts_peek(struct tracer *tracer, uint64_t *position, struct ptrace_bts_record *records,
		size_t most);

/* The record at `index`, 0 being the newest. -EINVAL: there are not so many. */
int bts_get(struct tracer *tracer, size_t index, struct ptrace_bts_record *record);

/*
 * Takes view, stamps, pause, overflow and threshold from `options`; the ring and what is in it
 * stay. -EINVAL, -EPERM, -ENOMEM: as bts_attach(); nothing has changed then.
 */
int bts_change(struct tracer *tracer, const struct bts_options *options);

/* Which filter makes the view out of what is recorded. */
enum bts_filter {
	BTS_FILTER_NONE,     /* everything is wanted */
	BTS_FILTER_HARDWARE, /* DS-CPL; what it lets through of transitions is dropped */
	BTS_FILTER_SOFTWARE, /* all is recorded, and what is not wanted is dropped */
};

struct bts_status {
	unsigned view;
	enum trace_overflow overflow;
	enum bts_filter filter;
	bool circular; /* the hardware writes the ring itself */
	bool stamps;
	size_t size;	  /* bytes, whole records */
	size_t available; /* records */
	uint64_t lost;	  /* records that the ring had no room for */
	bool lost_more;	  /* more than that: the hardware went round, or TRACE_STOP had stopped */
	bool truncated;	  /* the hardware ran out of room before anyone could make some */
	bool held;	  /* TRACE_SIGNAL: waits for trace_resume() */
	bool full;	  /* TRACE_STOP: has stopped */
	bool ended;	  /* the task is no more */
};

void bts_status(struct tracer *tracer, struct bts_status *status);

/*
 * Why there is no BTS, in words for the person at the machine, with what can be done about it; ""
 * where there is one. After boot, task context.
 */
const char *bts_missing(void);

/*
 * Makes all views in software, as where there is no DS-CPL: some silicon has wrong addresses with
 * it (errata AR62, W125). While nothing is traced.
 */
void bts_filter_in_software(bool always);

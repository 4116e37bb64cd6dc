/* SPDX-License-Identifier: MIT */
/*
 * Trace contexts: the buffer that a task's branches go to, wherever and whenever it runs.
 *
 * The rule, on which everything here rests: this CPU's IA32_DS_AREA and IA32_DEBUGCTL belong to the
 * running task's context, or to nobody. schedule() stops the trace of the task that leaves as its
 * first act (trace_depart) and starts that of the task that comes as its last (trace_arrive); the
 * driver in between never lets the hardware see one task's area with another's control bits.
 *
 * A context in DS_O_WRAP is circular: the hardware's buffer is all there is, and holds the newest
 * records. One in DS_O_SIGNAL is linear: at the threshold, which the interrupt or the scheduler
 * notices, the records are handed over to a ring that the reader empties, and recording goes on in
 * the margin meanwhile, so that none is lost and none comes twice.
 */
#ifndef SPOOR_KERNEL_TRACE_CONTEXT_H
#define SPOOR_KERNEL_TRACE_CONTEXT_H

#include "drivers/ds/ds.h"
#include "kernel/trace/ring.h"

#include <stdatomic.h>

struct cpu;
struct task;

struct trace_options {
	unsigned filter;           /* enum ds_filter; 0: everything */
	enum ds_overflow overflow;
	size_t records;            /* in the hardware's buffer */
	size_t margin;             /* DS_O_SIGNAL: records between threshold and end; 0: default */
	size_t ring_records;       /* DS_O_SIGNAL: room for the reader */
};

struct trace_context {
	struct task *task; /* NULL once it ended */
	struct ds_lease lease;
	struct trace_options options;
	void *area, *buffer;
	size_t buffer_pages, ring_pages;
	struct trace_ring ring;
	uint64_t handed_over; /* times that the buffer was emptied into the ring */
	bool truncated;       /* the hardware's buffer was full before it could be emptied */
	atomic_bool due;      /* stands in its CPU's list of contexts to be emptied */
	struct trace_context *next_due;
};

/* What firmware left on is recorded and turned off. Boot, once exceptions can be caught. */
void trace_quiesce(void);

/* The IA32_DEBUGCTL that firmware had left, 0 if nothing. */
uint64_t trace_found_at_boot(void);

/* Probes the Debug Store, and takes the PMI as NMI. Boot. */
void trace_init(void);

/* The same for another CPU, which has what the boot CPU has. */
void trace_init_cpu(void);

/*
 * Where the PMI is delivered on this CPU: as NMI (how it starts), or as the fixed vector
 * VECTOR_PMI, which waits while interrupts are off.
 */
void trace_deliver_pmi(bool nmi);

/*
 * Gives `task`, which does not run or is the caller, a context of its own and starts to record.
 * -ENODEV: no BTS; -EBUSY: it has one; -EINVAL, -EOPNOTSUPP: see ds_request_bts(); -ENOMEM. A
 * failure leaves nothing behind. Task context.
 */
int trace_attach(struct task *task, const struct trace_options *options,
		 struct trace_context **context);

/*
 * Copies at most `most` records to `records`, oldest first, and returns how many. A linear context
 * is emptied by it, a circular one is not. Task context; of a task that runs, its own only.
 */
size_t trace_read(struct trace_context *context, struct bts_struct *records, size_t most);

/*
 * Stops recording and frees everything. False: something wrote outside the buffer or the DS area
 * (the pattern behind them is not whole). Task context.
 */
bool trace_detach(struct trace_context *context);

/* The two ends of a switch: IF = 0, for the scheduler only. */
void trace_depart(struct cpu *cpu, struct trace_context *context);
void trace_arrive(struct cpu *cpu, struct trace_context *context); /* NULL: nobody's */

/* The task is at its end: nothing of it may be recorded any more; its records stay readable. */
void trace_task_ended(struct task *task);

/* Empties what waits to be, on this CPU. IF = 0. */
void trace_hand_over(struct cpu *cpu);

#endif

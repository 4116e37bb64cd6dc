/* SPDX-License-Identifier: MIT */
/*
 * Between the files of this folder: whose branches go where.
 *
 * A context is what is traced: a task, or a CPU (the catch-all: everything that runs there). Its
 * tracers each have a ring. While a CPU records, its hardware is in one of two shapes:
 *
 * - circular: the only tracer concerned is a task's, in wrap mode, and wants everything. Its ring
 *   is the hardware's buffer; no interrupt, no copy, nothing to be filtered: hardware that filters
 *   by CPL stores some of the transitions too, which would push wanted records out.
 * - linear: anything else. The hardware writes the CPU's own staging buffer, in interrupt mode,
 *   which is emptied into the rings of all tracers concerned, each taking what is in its view: at
 *   the threshold, whenever recording stops (departure, an operation on the context), never later.
 *
 * The shape is chosen anew whenever recording starts. Rings look the same in both, so that nothing
 * is copied when it changes. A context at rest (`cpu` is NULL) has all its records in its rings,
 * and no hardware knows any of its memory.
 *
 * Locks: `attachments` (task->trace, references), then a task's context, then a CPU's context, then
 * an account's. They are held for a bounded time with IF = 0, and never across smp_call(); none of
 * the kernel's other locks is taken under them.
 */
#ifndef SPOOR_KERNEL_TRACE_CONTEXT_H
#define SPOOR_KERNEL_TRACE_CONTEXT_H

#include "drivers/ds/ds.h"
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/trace/ring.h"
#include "kernel/trace/trace.h"

#define STAGING_RECORDS 2048 /* in a CPU's staging */

struct trace_context {
	struct spinlock lock;
	struct task *task;	   /* NULL: a CPU's, or the task ended */
	_Atomic(struct cpu *) cpu; /* where it is being recorded, or NULL: at rest */
	struct tracer *tracers;
	unsigned programmed; /* view of the hardware when it was recorded last; 0: never */
	bool circular;	     /* shape then */
	unsigned references; /* attachments; the context of a CPU has one of its own */
};

struct tracer {
	struct trace_context *context; /* NULL once detached */
	struct tracer *next;	       /* of the same context */
	struct trace_options options;
	size_t charged; /* bytes of all its pages */
	struct trace_ring ring;
	struct ds_lease lease; /* of the ring, for the circular shape */
	bool arrived, held, full, truncated;
	uint64_t missed;    /* records that found no room since the last that did */
	atomic_bool queued; /* `options.overflowed` is to be called */
	struct tracer *next_queued;
};

/* What a CPU has for tracing. Only that CPU uses it, with IF = 0. */
struct trace_cpu {
	struct trace_context context;  /* the catch-all */
	struct trace_context *running; /* the task's context that is being recorded, or NULL */
	struct tracer *circular;       /* whose ring the hardware writes, or NULL */
	struct ds_lease staging[4];    /* of one buffer, by view; 0 is not used */
	struct tracer *queue;	       /* whose owner is to be told */
	uint64_t reached;	       /* times that staging was emptied at its threshold */
	uint64_t fault; /* the RIP in the kernel's half at which ring 3 faults, or 0 */
};

/* --- tracer.c --- */

/* What trace_attach() refuses of options alone. */
int tracer_check(const struct trace_options *options);

/* Decides everything that the options leave open; `size` is that of the ring. */
void tracer_settle_options(struct trace_options *options, size_t size);

/* A tracer with its ring, charged. Errors as trace_attach(). */
int tracer_create(const struct trace_options *options, struct tracer **tracer);

/* Gives everything back; false: a pattern was not whole. NULL is allowed. */
bool tracer_free(struct tracer *tracer);

/* The ring has no room for another branch, and does not wrap. The context's lock is held. */
bool tracer_is_full(const struct tracer *tracer);

/* TRACE_STOP has come to its end. The context's lock is held. */
bool tracer_is_stopped(const struct tracer *tracer);

/* True unless the tracer is full, or waits to be resumed, or was told to pause. As above. */
bool tracer_records(const struct tracer *tracer);

/* To the ring, if it is a stamp or in the view. As above. */
void tracer_put(struct tracer *tracer, const struct bts_struct *record);

/* Tells the reader that `number` records are missing here; 0: it is not known how many. As above.
 */
void tracer_put_gap(struct tracer *tracer, uint64_t number);

/* ring_has_gap(), for a tracer that has stamps; records and a gap before them. As above. */
bool tracer_has_gap(const struct tracer *tracer, uint64_t position, uint64_t *number);
size_t tracer_available(const struct tracer *tracer);

/* A stamp for whoever asked for stamps. As above. */
void tracer_stamp(struct tracer *tracer, unsigned qualifier, unsigned pid, unsigned cpu);

/* What hardware does of `view`: itself, or everything where it cannot filter or spoils records. */
unsigned trace_hardware_view(unsigned view);

/* --- switch.c --- */

/* The union of the tracers' views; 0: nothing is to be recorded. The lock is held. */
unsigned trace_wishes(const struct trace_context *context);

/* trace_depart() without a stamp: trace_arrive() goes on. IF = 0. */
void trace_rest(struct cpu *cpu);

/* --- operation.c --- */

/* Calls `function(argument)` with the context at rest and locked, wherever it is recorded. */
void trace_perform(struct trace_context *context, void (*function)(void *argument), void *argument);

/*
 * Lets every CPU see what changed and tell the owners that wait to be told. Afterwards no CPU
 * knows a tracer that was detached or a context that was given up before.
 */
void trace_settle(void);

/* --- pmi.c --- */

/* Takes the performance-monitoring interrupt, as NMI. Boot. */
void trace_init_pmi(void);

/* --- work.c --- */

/* Takes VECTOR_TRACE_WORK. Boot. */
void trace_init_work(void);

/* The owner is to be told, from this CPU, as soon as interrupts are on. The lock is held. */
void trace_queue(struct cpu *cpu, struct tracer *tracer);

/* Tells them. IF = 0, no lock held. */
void trace_serve_queue(struct cpu *cpu);

/* --- staging.c --- */

/* Gives this CPU its staging; panics if memory is out. Boot. */
void trace_create_staging(struct cpu *cpu);

/* Asks for the interrupt after `records`, or about then, of `view`. Recording is stopped. */
void trace_set_staging_threshold(struct trace_cpu *trace, unsigned view, size_t records);

/* --- account.c --- */

/*
 * Returns what it charged: `bytes`, a multiple of PAGE_SIZE; or, where the limit leaves less, all
 * whole pages that are left; or 0 where these are less than `least`. `spared` bytes of what is
 * charged already do not count against the limit. NULL charges nothing and returns `bytes`.
 */
size_t account_charge(struct trace_account *account, size_t bytes, size_t least, size_t spared);
void account_uncharge(struct trace_account *account, size_t bytes);

#endif

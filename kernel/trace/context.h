/* SPDX-License-Identifier: MIT */
/*
 * Between the files of this folder and the units: what is traced, and what its tracers have in
 * common.
 *
 * A context is what is traced: a task, or a CPU (the catch-all: everything that runs there). A
 * context at rest (`cpu` is NULL) has all its records in its tracers' memory, and no hardware knows
 * any of that memory.
 *
 * Locks: `attachments` (task->trace, references), then a task's context, then a CPU's context, then
 * an account's. They are held for a bounded time with IF = 0, and never across smp_call(); none of
 * the kernel's other locks is taken under them.
 */
#pragma once

#include "drivers/ds/ds.h"
#include "drivers/pmu/pmu.h"
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/trace/freeze.h"
#include "kernel/trace/trace.h"
#include "kernel/trace/unit.h"

struct trap_frame;

struct trace_context {
	struct spinlock lock;
	struct task *task; /* NULL: a CPU's, or the task `ended` */
	bool ended;
	_Atomic(struct cpu *) cpu; /* where it is being recorded, or NULL: at rest */
	struct tracer *tracers[TRACE_UNITS];
	unsigned units;	     /* bits of those that have tracers */
	unsigned references; /* attachments; the context of a CPU has one besides */
};

/* That a unit is in use. `traced`: the pid of a task; 0: CPUs are traced, or `cpu` by `tracer`. */
struct trace_claim {
	unsigned unit, traced, cpu;
	const struct tracer *tracer; /* or NULL */
	unsigned pid;		     /* whose: set by trace_claim() */
	struct trace_claim *next;
};

/* The beginning of every unit's tracers. */
struct tracer {
	struct trace_context *context; /* NULL once detached */
	struct trace_claim claim;      /* while it is attached */
	struct tracer *next;	       /* of the same context and unit */
	unsigned unit;
	struct trace_account *account;
	size_t charged;		       /* to it: bytes of all its pages */
	const struct tracer *replaces; /* will be detached: it is in nobody's way */
	atomic_bool held;	       /* waits for trace_resume() */
	atomic_bool queued;	       /* `overflowed` is to be called */
	struct tracer *next_queued;
	struct tracer *brings; /* one of another unit, which ends with it; or NULL */
	trace_overflowed *overflowed;
	void *argument;
};

enum { TRACE_UNIT_BYTES = 576 };

/* A CPU's state for tracing. Only that CPU uses it, with IF = 0. */
struct trace_cpu {
	struct trace_context context;	/* the catch-all */
	struct trace_context *running;	/* the running task's while it is being recorded, or NULL */
	struct trace_context *own;	/* &context while it is being recorded, or NULL */
	unsigned arrived;		/* bits of the units that had tracers in one of the two */
	bool departs;			/* in depart(): the task leaves the CPU, which is stamped */
	struct tracer *queue;		/* whose owner is to be notified */
	uint64_t interrupted;		/* checksum of the newest performance interrupt's frame */
	unsigned unexplained;		/* such interrupts with that frame, one after the other */
	const struct trap_frame *frame; /* in pmu_pmi(): what the interrupt interrupted */
	uint64_t fault; /* the RIP in the kernel's half at which ring 3 faults, or 0 */
	struct ds_cpu ds;
	struct pmu_cpu pmu;
	struct freeze_cpu freeze;
	/* The state of each unit on this CPU, in cache lines of this CPU alone; zero at boot. */
	_Alignas(64) unsigned char unit[TRACE_UNITS][TRACE_UNIT_BYTES];
};

/* No unit starts to record here: freeze.h. An NMI may set it at any time. */
static inline bool trace_is_frozen(const struct cpu *cpu)
{
	return __builtin_expect(
		atomic_load_explicit(&cpu->trace->freeze.frozen, memory_order_relaxed), false);
}

/* The tracer of the unit after `at` of this CPU's contexts, the task's first; NULL: the first. */
static inline struct tracer *trace_next(const struct cpu *cpu, unsigned unit,
					const struct tracer *at)
{
	struct trace_context *of[] = {cpu->trace->running, cpu->trace->own};
	struct tracer *next = at ? at->next : NULL;

	for (unsigned i = at && at->context == of[0]; !next && i < 2; i++)
		if (of[i] && (!at || at->context != of[1]))
			next = of[i]->tracers[unit];
	return next;
}

/* --- units.c --- */

/* Stops the units of this CPU if it is frozen; its contexts do not come to rest. IF = 0, NMI. */
void trace_freeze_units(struct cpu *cpu);

/* --- switch.c --- */

/* trace_depart() without a stamp: trace_arrive() goes on. IF = 0. */
void trace_rest(struct cpu *cpu);

/* --- operation.c --- */

/* Takes VECTOR_TRACE_WORK. Boot. */
void trace_init_work(void);

/* Calls the function with the tracer's context at rest and locked, wherever it is recorded. */
typedef void trace_operation(struct tracer *tracer, void *argument);
void trace_perform(struct tracer *tracer, trace_operation *function, void *argument);

/*
 * Lets every CPU see what changed and notify the owners that wait for it. Afterwards no CPU knows a
 * tracer that was detached or a context that was given up before.
 */
void trace_settle(void);

/* --- attach.c --- */

/*
 * Attaches a tracer that a unit has made, to a task or, if that is NULL, to CPU `index`, and starts
 * to record.
 * -ESRCH: the task has ended; -ENOMEM; -EINVAL: no such CPU; -EBUSY: as trace_claim(). An error
 * frees the tracer.
 */
int trace_link(struct task *task, unsigned index, struct tracer *tracer);

/* --- claim.c --- */

/*
 * The running task uses a unit until trace_unclaim(). -EBUSY: a unit is in use, of the same task or
 * of CPUs, that records nothing while this one does, or the other way round, of which
 * trace_holder() says by whom; or the two tracers cannot be beside each other. Any context but NMI.
 */
int trace_claim(struct trace_claim *claim);
void trace_unclaim(const struct trace_claim *claim); /* nothing, if it is not held */

/* --- pmi.c --- */

/* Takes the performance-monitoring interrupt, as NMI. Boot. */
void trace_init_pmi(void);

/* --- queue.c --- */

/*
 * TRACE_SIGNAL has come to its threshold: the tracer is held, and the task gets no further in ring
 * 3. This CPU notifies the owner as soon as interrupts are on. The context is locked.
 */
void trace_hold(struct cpu *cpu, struct tracer *tracer);

/* Notifies the owners in this CPU's queue. IF = 0, no lock held. */
void trace_notify_owners(struct cpu *cpu);

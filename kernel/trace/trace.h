/* SPDX-License-Identifier: MIT */
/*
 * Common to the readers of all trace units. A unit's own interface is in its folder: bts/bts.h.
 *
 * A tracer reads what one task does, on whatever CPU it runs, or one CPU, whatever runs there.
 * Tracers do not know of each other: any number of them may be attached, in any mix, each with
 * its own memory, view and losses, and none is refused for another's sake.
 *
 * All functions: task context, interrupts on or off, no spinlock held, MSRs of this CPU not lent.
 * A function that concerns another CPU acts there, and has acted when it returns. A tracer is used
 * by one caller at a time.
 */
#pragma once

#include "abi/errno.h"

#include <stdbool.h>
#include <stddef.h>

struct tracer;

/*
 * The view of a tracer: branches with both ends in the user's range of addresses, with both in the
 * kernel's, or, both bits together, everything, the transitions between the two included.
 */
enum { TRACE_USER = 1, TRACE_KERNEL = 2 };

enum trace_overflow {
	TRACE_WRAP,   /* keep the newest */
	TRACE_SIGNAL, /* at the threshold hold the tracer's own trace, and tell */
	TRACE_STOP,   /* keep the oldest: record until full, then no more */
};

/*
 * Locked memory that tracers are charged to, in bytes: all pages that a tracer takes. Outlives
 * them; `used` is for reading only. Not charged is what tracers share: a task's context (one page)
 * and what a unit has on each CPU.
 */
struct trace_account {
	size_t limit, used;
	bool privileged; /* its owner may see kernel addresses */
};

/*
 * TRACE_SIGNAL's owner is notified, once a crossing: the memory has reached its threshold, and
 * nothing of the task (or CPU) is recorded for this tracer any more until trace_resume(); other
 * tracers are not concerned. What was recorded beyond the threshold by then is kept, even where
 * that is more than its size. A user_run() of the task returns meanwhile (sched_break_user()).
 * IF = 0, on any CPU, no lock held; it must not wait nor use this interface, and may still come
 * until trace_detach() returns.
 */
typedef void trace_overflowed(struct tracer *tracer, void *argument);

/*
 * The pid of the newest user of a unit (unit.h), of those that trace CPUs if there are any; -ENXIO:
 * nobody uses it. Any context but NMI.
 */
int trace_holder(unsigned unit);

/* True if a trace unit was found that works. After boot, any context. */
bool trace_is_present(void);

/*
 * Ends the tracer and gives all its memory back. False: something wrote outside its memory (the
 * pattern after it is not whole).
 */
bool trace_detach(struct tracer *tracer);

/* Removes all records, and forgets what status says of those that are missing. */
void trace_clear(struct tracer *tracer);

/*
 * Of a unit whose tracers keep the newest: copies (NULL: only counts) at most `most` of them,
 * newest first; they stay.
 */
size_t trace_read(struct tracer *tracer, void *records, size_t most);

/* TRACE_SIGNAL: the trace waits for trace_resume(). Any context but NMI; spinlocks may be held. */
bool trace_is_held(const struct tracer *tracer);

/* Goes on after TRACE_SIGNAL held the trace, or TRACE_STOP ended it. Else does nothing. */
void trace_resume(struct tracer *tracer);

/*
 * Calls `function(argument)` on this CPU, of which nothing is recorded meanwhile. It may use this
 * interface. Interrupts are off, and stay so.
 */
void trace_unseen(void (*function)(void *argument), void *argument);

/*
 * Where the interrupt at the hardware's threshold is delivered on this CPU: as NMI (how it starts),
 * or as the fixed vector VECTOR_PMI, which waits while interrupts are off.
 */
void trace_deliver_pmi(bool nmi);

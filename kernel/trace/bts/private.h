/* SPDX-License-Identifier: MIT */
/*
 * Between the files of this folder. While a CPU records branches, its hardware is in one of two
 * shapes:
 *
 * - circular: the only tracer concerned is a task's, in wrap mode, and wants everything. Its ring
 *   is the hardware's buffer; no interrupt, no copy, nothing to be filtered: hardware that filters
 *   by CPL stores some of the transitions too, which would push wanted records out.
 * - linear: anything else. The hardware writes the CPU's own staging buffer, in interrupt mode.
 *   It is emptied into the rings of all tracers concerned, each taking what is in its view: at the
 *   threshold, whenever recording stops (departure, an operation on the context), never later.
 *
 * The shape is chosen anew whenever recording starts. Rings look the same in both, so that nothing
 * is copied when it changes.
 */
#pragma once

#include "kernel/trace/bts/bts.h"
#include "kernel/trace/bts/ring.h"
#include "kernel/trace/context.h"

#define STAGING_RECORDS 2048 /* in a CPU's staging */

struct bts_tracer {
	struct tracer base; /* its context's lock guards all of it */
	struct bts_options options;
	struct trace_ring ring;
	struct ds_lease lease;		     /* of the ring, for the circular shape */
	bool arrived, full, truncated, kept; /* bts_keep() */
	bool stays_full;		     /* `full` since before the context was recorded last */
	uint64_t gap;	     /* position of a gap after which no record was stored, or 0 */
	uint64_t missing;    /* records that no gap tells yet; GAP_UNKNOWN or more: unknown */
	unsigned programmed; /* view of the hardware when it recorded last; 0: never */
	bool circular;	     /* shape then */
};

static inline struct bts_tracer *bts_of(const struct tracer *tracer)
{
	return (struct bts_tracer *)(uintptr_t)tracer;
}

/* The tracers of branches of a context, or NULL, one after the other; NULL: no more. */
static inline struct bts_tracer *bts_first(const struct trace_context *context)
{
	return context ? bts_of(context->tracers[TRACE_BTS]) : NULL;
}

static inline struct bts_tracer *bts_next(const struct bts_tracer *tracer)
{
	return bts_of(tracer->base.next);
}

/* The tracer after `at` of both contexts of a CPU. */
static inline struct bts_tracer *bts_next_of(const struct cpu *cpu, const struct bts_tracer *at)
{
	return bts_of(trace_next(cpu, TRACE_BTS, at ? &at->base : NULL));
}

/* A CPU's state for branches. Only that CPU uses it, with IF = 0; in its own cache lines. */
struct bts_cpu {
	_Alignas(64) struct bts_tracer *circular; /* whose ring the hardware writes, or NULL */
	struct ds_lease staging[4];		  /* of one buffer, by view; 0 is not used */
	uint64_t reached; /* times that staging was emptied at its threshold */
};
_Static_assert(sizeof(struct bts_cpu) <= TRACE_UNIT_BYTES, "struct trace_cpu");

static inline struct bts_cpu *bts_cpu(const struct cpu *cpu)
{
	return (struct bts_cpu *)cpu->trace->unit[TRACE_BTS];
}

/* --- tracer.c --- */

/* bts_attach() of these options, whatever to: -ENODEV, -EINVAL or -EPERM, or 0 if none of these. */
int tracer_check(const struct bts_options *options);

/* Decides everything that the options leave open; `size` is that of the ring. */
void tracer_settle_options(struct bts_options *options, size_t size);

/* A tracer with its ring, charged. Errors as bts_attach(). */
int tracer_create(const struct bts_options *options, struct bts_tracer **tracer);

/* Gives everything back. Returns false if a pattern was overwritten. */
bool tracer_free(struct tracer *tracer);

/* As the unit's row. */
void tracer_clear(struct tracer *tracer);

/* The ring has no room for another branch, and does not wrap. The context's lock is held. */
bool tracer_is_full(const struct bts_tracer *tracer);

/* TRACE_STOP has come to its end. The context's lock is held. */
bool tracer_is_stopped(const struct bts_tracer *tracer);

/* True unless the tracer waits to be resumed, or is paused: then nothing is missing. As above. */
static inline bool tracer_wants(const struct bts_tracer *tracer)
{
	return !tracer->base.held && !tracer->options.paused;
}

/* The same, and it is not full. */
static inline bool tracer_records(const struct bts_tracer *tracer)
{
	return tracer_wants(tracer) && !tracer->full;
}

/* Its newest record overwrites the oldest. As above. */
static inline bool tracer_wraps(const struct bts_tracer *tracer)
{
	return tracer->options.overflow == TRACE_WRAP && !tracer->kept;
}

/* To the ring, if it is a stamp or in the view. As above. */
void tracer_put(struct bts_tracer *tracer, const struct bts_struct *record);

/*
 * Says in the ring that `number` more records are missing here, with those of former calls for
 * which it had no room. As above.
 */
#define GAP_UNKNOWN (1ull << 63)
void tracer_put_gap(struct bts_tracer *tracer, uint64_t number);

/* ring_has_gap(), for a tracer that has stamps; records and a gap before them. As above. */
bool tracer_has_gap(const struct bts_tracer *tracer, uint64_t position, uint64_t *number);
size_t tracer_available(const struct bts_tracer *tracer);

/* A stamp, for a tracer that asked for stamps. As above. */
void tracer_stamp(struct bts_tracer *tracer, unsigned qualifier, unsigned pid, unsigned cpu);

/* The union of the views of a context's tracers that record; 0: none does. As above. */
unsigned wished_view(const struct trace_context *context);

/* The filter to program for `view`: the same, or none if DS-CPL is absent or has an erratum. */
unsigned hardware_filter(unsigned view);

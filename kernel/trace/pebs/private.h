/* SPDX-License-Identifier: MIT */
/*
 * Between the files of this folder. While a CPU has tracers of samples to serve, each has a counter
 * there, and the hardware writes all samples into the CPU's staging. That is emptied at its
 * threshold and whenever recording stops; each sample then goes to the tracer whose counter it is
 * of. Counters, and the PEBS half of the DS area, are taken at arrival and given back at departure.
 */
#pragma once

#include "drivers/ds/pebs.h"
#include "kernel/trace/context.h"
#include "kernel/trace/pebs/pebs.h"

/* The most that Core 2 takes: a larger buffer hangs it (Linux 6.1, ds.c). */
#define STAGING_BYTES 4096
#define STAGING_MOST  (STAGING_BYTES / 144)
/* Records with branches are up to 976 bytes long. */
#define STAGING_BYTES_ADAPTIVE 8192

/*
 * A tracer's counter has a slot: those of the fixed counters, of instructions and core cycles, are
 * first, so that they are taken first, then general ones, as many as take samples at most.
 */
enum { PEBS_FIXED = 2, PEBS_COUNTERS = PEBS_FIXED + 8 };

static inline unsigned pebs_counter(unsigned slot)
{
	return slot < PEBS_FIXED ? PMU_FIXED + slot : slot - PEBS_FIXED;
}

struct pebs_event {
	uint32_t code;	   /* event select and unit mask; 0: this processor has none */
	uint64_t counters; /* that can sample it, or count it */
	bool memory;	   /* it accesses memory */
};

struct pebs_tracer {
	struct tracer base; /* its context's lock guards all of it */
	struct pebs_options options;
	struct pebs_event event;
	uint64_t counters; /* that it can take */
	struct pmu_owner owner;
	char name[PTRACE_PEBS_HOLDER];

	unsigned char *memory;
	size_t unit; /* bytes of a sample */
	size_t slots, first, used;
	uint64_t lost;
	bool admitted, full, truncated, blocked;
	char holder[PTRACE_PEBS_HOLDER]; /* if blocked */

	/*
	 * Where its counter is in the period. 0 left: it has reached zero, and the next event was
	 * to be sampled. No write can bring a counter back there: it goes on one event before, and
	 * the next sample is `late` events late; the period after that is shorter.
	 */
	uint64_t left;
	int64_t late;
	uint64_t taken; /* samples since it was loaded */
	uint64_t reset; /* what the period after the next sample is then */

	uint64_t events; /* of one that counts */
};

static inline struct pebs_tracer *pebs_of(const struct tracer *tracer)
{
	return (struct pebs_tracer *)(uintptr_t)tracer;
}

static inline struct pebs_tracer *pebs_first(const struct trace_context *context)
{
	return context ? pebs_of(context->tracers[TRACE_PEBS]) : NULL;
}

static inline struct pebs_tracer *pebs_next(const struct pebs_tracer *tracer)
{
	return pebs_of(tracer->base.next);
}

/* It takes samples by PEBS. */
static inline bool pebs_is_precise(const struct pebs_options *options)
{
	return !options->count && !options->interrupt;
}

/* Events from one sample to the next; PEBS takes its sample one event after this. */
static inline uint64_t pebs_distance(const struct pebs_options *options)
{
	return options->period + options->interrupt;
}

/* A CPU's state for samples. Only that CPU uses it, with IF = 0. */
struct pebs_cpu {
	_Alignas(64) struct ds_pebs_lease lease;
	struct pebs_tracer *loaded[PEBS_COUNTERS]; /* by slot */
	uint64_t counters; /* bits of their counters; 0: nothing is recorded */
	uint64_t sampling; /* those of them that take samples by PEBS */
	uint64_t kernel;   /* those of them that count the kernel's instructions */
	void *staging;
	size_t records; /* that staging has room for, of those that are loaded */
	bool reached;	/* staging's threshold */

	uint64_t interrupted;	 /* bits of counters whose interrupt arrived */
	struct ds_sample sample; /* what it interrupted */
};
_Static_assert(sizeof(struct pebs_cpu) <= TRACE_UNIT_BYTES, "struct trace_cpu");

static inline struct pebs_cpu *pebs_cpu(const struct cpu *cpu)
{
	return (struct pebs_cpu *)cpu->trace->unit[TRACE_PEBS];
}

/* The tracer that has the slot, if it takes samples by PEBS, or NULL. */
static inline struct pebs_tracer *pebs_sampler(const struct pebs_cpu *pebs, unsigned slot)
{
	return pebs->sampling >> pebs_counter(slot) & 1 ? pebs->loaded[slot] : NULL;
}

/* --- events.c --- */

/* How this processor samples or counts the event that is asked for. Errors as pebs_attach(). */
int pebs_find_event(const struct pebs_options *options, struct pebs_event *found);

/* --- tracer.c --- */

/* A tracer with its buffer, charged, not admitted. Errors as pebs_attach(). */
int pebs_create(const struct pebs_options *options, struct pebs_tracer **tracer);

/* Gives everything back. Returns false if a pattern was overwritten. */
bool pebs_free(struct tracer *tracer);

/* Samples and events, as the unit's row; one that TRACE_STOP ended goes on. */
void pebs_forget(struct tracer *tracer);

/* The sample `n` after the oldest, or its place. */
static inline void *pebs_slot(const struct pebs_tracer *tracer, size_t n)
{
	return tracer->memory + (tracer->first + n) % tracer->slots * tracer->unit;
}

/* No more samples are wanted until it is resumed or emptied. */
static inline bool pebs_records(const struct pebs_tracer *tracer)
{
	return tracer->admitted && !tracer->full && !tracer->base.held;
}

/* TRACE_STOP has come to its end; TRACE_SIGNAL has come to its threshold. */
bool pebs_is_full(const struct pebs_tracer *tracer);
bool pebs_at_threshold(const struct pebs_tracer *tracer);

/* Samples until then. */
size_t pebs_room(const struct pebs_tracer *tracer);

/* To the buffer, without what is not in the view; `cpu` recorded it. */
void pebs_put(struct pebs_tracer *tracer, const struct ds_sample *sample, const struct cpu *cpu);

/* --- counters.c --- */

/* Those with one counter to take choose first. */
static inline bool pebs_has_no_choice(uint64_t counters)
{
	return !(counters & (counters - 1));
}

/* A number for event and view: equal for tracers that sample the same; 0: no records of PEBS. */
static inline uint32_t pebs_counted(const struct pebs_tracer *tracer)
{
	return !pebs_is_precise(&tracer->options) ? 0
						  : tracer->event.code | tracer->options.view << 16;
}

/*
 * Records of formats 1 and 2 name all counters that have reached zero, those that wait for an event
 * too. Where all count the same none waits longer than another, and the records tell whose they
 * are.
 */
static inline bool pebs_are_rivals(uint32_t counted, uint32_t other)
{
	return !(ds_sample_has() & DS_SAMPLE_COUNTERS) && counted && other && counted != other;
}

/* To PTRACE_PEBS_HOLDER bytes; NULL is "". */
static inline void pebs_copy_name(char *to, const char *name)
{
	size_t at = 0;

	for (; name && name[at] && at < PTRACE_PEBS_HOLDER - 1; at++)
		to[at] = name[at];
	for (; at < PTRACE_PEBS_HOLDER; at++)
		to[at] = 0;
}

/* Gives each tracer of both contexts that records a counter of this CPU, loaded but not running. */
void pebs_take_counters(struct cpu *cpu);

/* Gives these stopped counters back; `overflowed` are those that had reached zero. */
void pebs_give_counters(struct cpu *cpu, uint64_t counters, uint64_t overflowed);

/* The tracer cannot record here because of `holder`. */
void pebs_block(struct pebs_tracer *tracer, const char *holder);

/* --- interrupt.c --- */

/* A counter's owner that takes samples at its interrupt: struct pmu_owner. */
void pebs_interrupted(unsigned counter, void *argument);

/* --- admit.c --- */

#define ALL_CPUS MAX_CPUS

/*
 * 0: the tracer, which is attached and does not record yet, finds a counter beside all tracers of
 * its context and what else has counters, on CPU `index` (ALL_CPUS: a task may run on any). A task
 * goes first on a CPU, so that the CPU's own tracers do not count. -EBUSY: it does not;
 * options->holder gets a name. options->replaces does not count.
 */
int pebs_admit(struct pebs_tracer *tracer, unsigned index, const struct pebs_options *options);

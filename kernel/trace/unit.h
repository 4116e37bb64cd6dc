/* SPDX-License-Identifier: MIT */
/*
 * A trace unit: one kind of trace hardware, in a folder beside this file with a row in units.c. The
 * files of this folder know a unit by its row only; a unit knows them by context.h. A unit's tracer
 * begins with a struct tracer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cpu;
struct export_unit;
struct ptrace_unit;
struct tracer;

struct trace_branch {
	uint64_t from, to;
};

/* A member that is NULL does nothing; is_present, stop, depart, arrive and free are never NULL. */
struct trace_unit {
	const char *name; /* in the banner, in a panic, and in words of the command line */
	bool (*is_present)(void);

	/* Detects it. Boot CPU, once, before is_present(). */
	void (*init)(void);

	/* Memory that this CPU needs for it; panics if there is none. Boot, every CPU once. */
	void (*init_cpu)(struct cpu *cpu);

	/* Prints the banner's line. Boot. */
	void (*print)(void);

	/* trace_pause_cpu(), trace_resume_cpu(), trace_stop_cpu(). */
	uint64_t (*pause)(void);
	void (*resume)(uint64_t paused);
	void (*end)(struct cpu *cpu);

	/*
	 * Gets the branch before the `n` newest that this CPU's hardware holds; false: there is
	 * none. Recording is stopped; any context.
	 */
	bool (*newest)(struct cpu *cpu, size_t n, struct trace_branch *branch);

	/* In a panic. */
	void (*keep)(struct cpu *cpu); /* after end(): for newest(), what only registers have */
	void (*show)(struct cpu *cpu); /* prints what newest() does not give */

	/*
	 * The unit's part of a performance-monitoring interrupt, NMI included. True if the unit had
	 * a reason to interrupt: the contexts of this CPU soon come to rest.
	 */
	bool (*interrupt)(struct cpu *cpu);

	/*
	 * stop() ends recording on this CPU as its first act; depart() hands over what was recorded
	 * to the tracers of both contexts, whose memory no hardware knows afterwards. All units
	 * that arrived stop, in the order of the table, before the first departs: none records what
	 * another does then. IF = 0.
	 */
	void (*stop)(struct cpu *cpu);
	void (*depart)(struct cpu *cpu);

	/*
	 * Starts to record, as its last act, what the tracers of both contexts (cpu->trace) wish,
	 * if anything. Called if there are any, or were at the last arrival. The first unit of the
	 * table arrives last. IF = 0; the MSRs are not lent.
	 */
	void (*arrive)(struct cpu *cpu);

	/*
	 * Hands over what was recorded outside contexts, for a freeze, or goes on. True: some was.
	 * IF = 0.
	 */
	bool (*hold)(struct cpu *cpu, bool hold);

	/* The units, as bits, that record nothing while this one does. */
	unsigned (*excludes)(void);

	/* Of a task this unit does without while such a unit, or the reverse, records the CPU. */
	bool gives_way;

	/* Whether two tracers can record at a time. */
	bool (*agree)(const struct tracer *one, const struct tracer *other);

	/* trace_resume(), trace_clear(), trace_read() of a tracer, at rest and locked. */
	void (*go_on)(struct tracer *tracer);
	void (*clear)(struct tracer *tracer);
	size_t (*read)(struct tracer *tracer, void *records, size_t most);

	/* Gives all memory back, the page of the tracer by trace_free_page(). Returns false if the
	   pattern after it was overwritten. */
	bool (*free)(struct tracer *tracer);

	/* The unit's in kernel/ptrace and in kernel/export. */
	const struct ptrace_unit *requests;
	const struct export_unit *stream;
};

/* The units, by number. */
enum { TRACE_BTS, TRACE_PEBS, TRACE_PT, TRACE_LBR, TRACE_UNITS };
extern const struct trace_unit *const trace_units[TRACE_UNITS];

/* The statement after it runs for each `i` of a unit that has this member. */
#define EACH_UNIT_WITH(member)                                                                     \
	for (unsigned i = 0; i < TRACE_UNITS; i++)                                                 \
		if (trace_units[i]->member)

extern const struct trace_unit bts_unit, pebs_unit, pt_unit, lbr_unit;

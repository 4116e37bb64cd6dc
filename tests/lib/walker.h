/* SPDX-License-Identifier: MIT */
/*
 * Tasks that are traced while they walk a chain, and what must have become of their branches.
 *
 *	struct walker walker = {.name = "a", .chain = &chain_a, .walks = 100, .options = {...}};
 *	walkers_start(&walker, 1);
 *	walkers_join(&walker, 1);
 *	walkers_check(&walker, 1);
 *
 * At most one array of them at a time. Nothing between start and check may end the test.
 */
#pragma once

#include "kernel/sched/task.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trace/bts/ring.h"
#include "tests/lib/chain.h"

struct walker {
	const char *name;
	const struct chain *chain;
	uint64_t walks;				/* to be made */
	struct bts_options options;		/* size 0: not traced */
	const struct user_chain *user;		/* walked in ring 3 after each walk; or NULL */
	void (*between)(struct walker *walker); /* called after these, traced */
	unsigned step;				/* for `between` */

	struct task *task;
	struct tracer *tracer;
	uint64_t walked;
	struct chain_reader reader;
	uint64_t foreign; /* records with an end in the other chain */
	uint64_t others;  /* records of neither chain: the kernel's, and the calls between walks */
};

/* Reads what is new in a linear trace, while its walker does not run, into reader and counts. */
void walker_read(struct walker *walker);

/* Their tasks, on this CPU as the test from here on, traced, but not started. */
void walkers_create(struct walker *walkers, size_t count);

void walkers_start(struct walker *walkers, size_t count);
void walkers_join(struct walker *walkers, size_t count);
void walker_run(struct walker *walker); /* to its end */

/* The same, and reads them meanwhile: however often they are interrupted, rings stay small. */
void walkers_join_reading(struct walker *walkers, size_t count);

/*
 * Reads the rest and fails the test unless the branches of all walks are there, once and in order,
 * none of another walker's among them. Then ends the traces; everything is given back.
 */
void walkers_check(struct walker *walkers, size_t count);

/* Ends the trace alone and gives everything back. */
void walker_end(struct walker *walker);

/* The chain that is not `chain`. */
const struct chain *walker_other_chain(const struct chain *chain);

/* Everything, in a ring of `records` that overwrites nothing: the hardware's shape is linear. */
struct bts_options walker_options(size_t records);

/*
 * The ring of a tracer of branches, the lease of that ring, and its threshold in records. No reader
 * sees these. Task context, while the kernel does not change them.
 */
struct trace_ring *ring_of(const struct tracer *tracer);
struct ds_lease *lease_of(const struct tracer *tracer);
size_t threshold_of(const struct tracer *tracer);
void set_threshold(struct tracer *tracer, size_t threshold);

/*
 * This CPU's staging: its DS area, how many records it has room for, and how often it was emptied
 * at its threshold. The task stays on this CPU.
 */
void *staging_area(void);
size_t staging_records(void);
uint64_t staging_reached(void);

/* A walker that halts after every STAGE walks until the test has done something. */

#define STAGE 10

/* Functions for `between`, or for it to call. */
void stage_halt(struct walker *walker);

/* A walker in kernel and ring 3 that halts so and does nothing else between. */
struct walker stage_walker(struct user_chain *user, uint64_t walks);

/* Lets it go on, and waits until it has halted again after `walks` walks in all. */
void stage_next(struct walker *walker, uint64_t walks);

/* Lets it go on to its end, before it would halt again. */
void stage_last(struct walker *walker);

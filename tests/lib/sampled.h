/* SPDX-License-Identifier: MIT */
/*
 * Tasks whose every instruction in ring 3 is known, for tracers of samples: a visit to ring 3 is
 * some rounds of jumps, a load and a loop, and a system call. RCX and R8 tell the round and the
 * visit, so that a sample says by itself which event it is of.
 *
 *	sampled_open(&sampled);
 *	... attach to sampled.task ...
 *	sampled_run(&sampled);
 *	sampled_expect(&sampled, samples, count, SAMPLED_BRANCHES, period);
 *	sampled_close(&sampled);
 */
#pragma once

#include "kernel/trace/pebs/pebs.h"

#include <stdatomic.h>

#define SAMPLED_ROUNDS 3 /* in a visit */

enum sampled_kind { SAMPLED_BRANCHES, SAMPLED_INSTRUCTIONS, SAMPLED_LOADS };

struct sampled {
	unsigned number;			  /* below 32: no two share an address */
	uint64_t visits;			  /* to be made */
	void (*between)(struct sampled *sampled); /* after each, in the kernel; or NULL */
	bool interrupted;    /* each visit, by VECTOR_TEST, at its first instruction */
	struct tracer *held; /* the task waits while this tracer holds it; or NULL */

	struct task *task;
	uint64_t start, visited;
};

/*
 * Ends the test as SKIP where each interrupt of ring 3 is an event of ring 3, since no count is
 * exact there. A processor may count what changes the privilege level at the level that it leads
 * to. Or the interrupt itself counts, as was measured of Core to Sandy Bridge (V. Weaver and
 * others, "Non-Determinism and Overcount on Modern Hardware Performance Counter Implementations",
 * 2013). Before anything else.
 */
void sampled_needs_exact(void);

/* Makes the task, which waits for sampled_run(). The test is an ERROR without memory. */
void sampled_open(struct sampled *sampled);

/* The same with a tracer of it, without which the test ends. */
struct tracer *sampled_open_traced(struct sampled *sampled, const struct pebs_options *options);

/* Runs it to its end. */
void sampled_run(struct sampled *sampled);

/* Forgets it; before the test is over. */
void sampled_close(struct sampled *sampled);

/* The event that all processors with PEBS have one of: branches, or instructions on Core 2. */
enum sampled_kind sampled_portable(void);

/* Events between the one after an overflow and the one that is sampled: SDM Vol 3, 18.9.4.4. By
   measurement, so that no tracer may be there at the first call of this and of what follows. */
uint64_t sampled_skid(void);

/* A tracer of that event in ring 3, which keeps the oldest of `samples`. Of the period the skid is
   left out, as far as there is one: `period` events, and one that is sampled. */
struct pebs_options sampled_options(enum sampled_kind kind, uint64_t period, size_t samples);

/* Events in ring 3 in a visit. */
uint64_t sampled_events(enum sampled_kind kind);

/* Event `n` of those of all visits, from 0 on. */
struct sampled_place {
	uint64_t event_ip, ip, visit, rcx;
	bool call;     /* the system call, after which the state is the kernel's */
	bool taken;    /* a branch that is taken, both ends in ring 3 */
	uint64_t edge; /* which of these it is */
};
struct sampled_place sampled_place(const struct sampled *sampled, enum sampled_kind kind,
				   uint64_t n);

/*
 * The event that `sample` is of: number `n`, or the one after it, which the kernel's interface
 * allows where the task was interrupted between the two. With a skid: twice as many more, and once
 * for each departure that there may have been. False: neither.
 */
bool sampled_find(const struct sampled *sampled, enum sampled_kind kind, uint64_t n,
		  const struct ptrace_pebs_sample *sample, struct sampled_place *place);

/*
 * Fails the test unless sample i is of event (i + 1) * (period + 1) - 1, or a few of them of the
 * one after.
 */
void sampled_expect(const struct sampled *sampled, const struct ptrace_pebs_sample *samples,
		    size_t count, enum sampled_kind kind, uint64_t period);

/* SPDX-License-Identifier: MIT */
/*
 * What one tracer sees of a walker, in the kernel and in ring 3. The tracers are the test's own:
 *
 *	walkers_create(&walker, 1);
 *	viewer_open(&viewer, &walker, &options);
 *	walker_run(&walker);
 *	viewer_expect(&viewer, walker.walks);
 *	viewer_close(&viewer);
 *	walker_end(&walker);
 */
#pragma once

#include "tests/lib/walker.h"

struct viewer {
	struct tracer *tracer;
	unsigned view;
	struct chain_reader kernel, user;
	struct chain_reader waiting;	      /* the walks of a held walker */
	uint64_t exits;			      /* jumps after walks in ring 3 */
	uint64_t in_kernel, in_user, between; /* branches, by their ends */
	uint64_t stamps;
};

/* Attaches a tracer to the walker's task, or to CPU `index`. The test is an ERROR if that fails. */
void viewer_open(struct viewer *viewer, const struct walker *walker,
		 const struct bts_options *options);
void viewer_open_cpu(struct viewer *viewer, const struct walker *walker, unsigned index,
		     const struct bts_options *options);

/* Counts one record. */
void viewer_feed(struct viewer *viewer, const struct ptrace_bts_record *record);

/* Reads, and removes, what there was when it began. */
void viewer_read(struct viewer *viewer);

/* Reads what is left. Fails the test unless all of the view was there, once and in order, and
 * nothing else. */
void viewer_expect(struct viewer *viewer, uint64_t walks);

/* Detaches it. */
void viewer_close(struct viewer *viewer);

/*
 * A ring that overwrites nothing and has room for `walks` walks, in the kernel those of a task that
 * is not often interrupted.
 */
struct bts_options viewer_options(unsigned view, uint64_t walks);

/*
 * A tracer in TRACE_SIGNAL whose walker stops where its trace was held, and goes on when the test
 * has read it: no branch of either chain may be missing. While it waits the walker walks chain_b in
 * the kernel, which this tracer does not see and all others do.
 */
struct held {
	struct viewer viewer;
	atomic_uint told;   /* times that the owner was told */
	unsigned served;    /* and has read and resumed */
	uint64_t most_over; /* records beyond the threshold, at the most */
	uint64_t waits;	    /* walks of chain_b */
};

/* Opens the viewer in TRACE_SIGNAL; `user` is the walker's. One at a time. */
void held_open(struct held *held, struct walker *walker, struct user_chain *user,
	       struct bts_options options);

/* The walker waits here while its trace is held: what `between` calls at its end. */
void held_wait(struct walker *walker);

/* Reads and resumes each time until the walker has ended. */
void held_join(struct held *held, struct walker *walker);

/* Fails the test unless another tracer that sees the kernel has seen all walks of chain_b. */
void held_expect_waits(const struct held *held, const struct viewer *other);

/* Expects everything to have been seen, and to have been told each time; closes it. */
void held_close(struct held *held, uint64_t walks);

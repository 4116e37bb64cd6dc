/* SPDX-License-Identifier: MIT */
/*
 * A tracer in TRACE_SIGNAL whose walker stops where its trace was held, and goes on when the test
 * has read it: no branch of either chain may be missing. While it waits the walker walks chain_b in
 * the kernel, which this tracer does not see and all others do.
 */
#ifndef SPOOR_TESTS_LIB_HELD_H
#define SPOOR_TESTS_LIB_HELD_H

#include "tests/lib/viewer.h"

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

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Walks of a chain in ring 3 that carry their number: their lengths, in groups of five, spell it.
 * A reader may begin anywhere, in the middle of a walk too, and knows from then on which branch has
 * to come next, and soon how many walks were made before.
 */
#ifndef SPOOR_TESTS_LIB_NUMBERED_WALKS_H
#define SPOOR_TESTS_LIB_NUMBERED_WALKS_H

#include "kernel/trace/bts/bts.h"
#include "tests/lib/user_chain.h"

/* Whole walks that are certain to hold a group, wherever the first of them stands. */
#define NUMBERED_ENOUGH 10

/* How many branches walk `walk` has, for user_chain_walk(). */
uint64_t numbered_length(uint64_t walk);

struct numbered {
	const struct chain *chain;
	bool gaps; /* records may be missing: only what is foreign counts */
	enum { NUMBERED_ANYWHERE, NUMBERED_INSIDE, NUMBERED_BETWEEN } next;
	uint64_t at; /* NUMBERED_INSIDE: how far */
	bool known;  /* `walk` is the number of the walk that it is in, or of the next */
	uint64_t walk;
	unsigned digits; /* seen of a group, its mark counted; 0: wait for a mark */
	uint64_t number; /* that they make so far */
	uint64_t seen, wrong, foreign;
	struct ptrace_bts_record first_wrong;
};

/* A reader of the walks on `user`. */
void numbered_begin(struct numbered *reader, const struct user_chain *user, bool gaps);

/* Takes the next record of a view that has ring 3 in it; one with an end in the kernel is skipped.
 */
void numbered_feed(struct numbered *reader, const struct ptrace_bts_record *record);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Branches of which each can be told from the next: a ring of 256 jumps in scrambled order, walked
 * for an exact number of branches. What a recorder leaves out, repeats or mixes up shows against
 * the sequence that is known. Two rings, so that two tasks share no address.
 *
 * A walk of `n` branches (two or more): the jump into the ring, n - 2 branches from site to site,
 * and the jump out of it to what follows the walk.
 */
#pragma once

#include "drivers/ds/area.h"
#include "kernel/trace/bts/bts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHAIN_SITES 256
#define CHAIN_SLOT  5 /* bytes between two sites */

struct chain {
	const char *start, *last; /* the first site, and the one whose branch may end the walk */
	const char *last_jump, *exit_jump, *end;
};
extern const struct chain chain_a, chain_b;

struct branch {
	uint64_t from, to;
};

struct rig;

/*
 * Walks `n` branches of `chain` with IA32_DEBUGCTL = `debugctl` and IF = 0, and nothing else
 * between the two WRMSRs; again from the same index where a system management interrupt came in
 * between. The DS area is that of `rig`.
 */
void chain_trace(struct rig *rig, uint64_t debugctl, const struct chain *chain, uint64_t n);

/* Branch `i` of chain_trace() of `n` branches. */
struct branch chain_branch(const struct chain *chain, uint64_t n, uint64_t i);

/*
 * How the walk begins that leaves out the first and the last of these branches: where it enters
 * the ring, and what ECX has to be; RDX is where it jumps at its end.
 */
uint64_t chain_entry(const struct chain *chain, uint64_t n, uint32_t *ecx);

/* The same walk with nothing set and nothing changed. Any context. */
void chain_walk(const struct chain *chain, uint64_t n);

/* Fails the test unless slots `slot` to `slot + count - 1` hold branches `i` and up of the walk. */
void chain_expect(const struct rig *rig, size_t slot, size_t count, const struct chain *chain,
		  uint64_t n, uint64_t i);

/*
 * Fails the test unless the buffer looks as `n` branches of chain_trace() leave it that went round
 * `capacity` slots: the newest in each slot, nothing after them, the index past the newest. If
 * that is the last slot the index may be at the base as well: no manual says when it wraps.
 */
void circular_expect(struct rig *rig, size_t capacity, const struct chain *chain, uint64_t n);

/*
 * Follows walks of changing length in a stream of records that holds other branches too: walk k is
 * chain_walk(chain, chain_length(k)), k = 0, 1, ...
 */
uint64_t chain_length(uint64_t walk);

struct chain_reader {
	const struct chain *chain;
	uint64_t walk, i;     /* the next branch */
	uint64_t seen, wrong; /* branches of the chain; those out of sequence */
	struct branch first_wrong, first_expected;
};

void chain_feed(struct chain_reader *reader, const struct bts_struct *record);

/* Fails the test unless exactly `walks` whole walks were seen, in sequence. */
void chain_expect_walks(const struct chain_reader *reader, uint64_t walks, const char *whose);

/*
 * A chain that is walked in ring 3. Walk k of chain_length(k) = n branches leaves, of the branches
 * with both ends there, n - 2 from site to site and the jump after them, to `exit`.
 */
struct user_chain {
	struct chain chain;
	uint64_t exit;
	/* Called when sched_break_user() ended a walk, which then goes on; NULL if nobody does. */
	void (*broken)(void);
};

/*
 * Maps chain number `number`, below 32; no two of them share an address. Stays until
 * user_chain_close(), which must come before the test is over.
 */
void user_chain_open(struct user_chain *user, unsigned number);
void user_chain_close(const struct user_chain *user);

/* In a block: chain 0 in `name`, to the block's end. */
#define USER_CHAIN(name)                                                                           \
	struct user_chain name CLOSED_BY(user_chain_close);                                        \
	user_chain_open(&(name), 0)

/* Branch `i`, below n - 1, of those with both ends in ring 3. */
struct branch user_chain_branch(const struct user_chain *user, uint64_t n, uint64_t i);

/* A walk of `n` branches, there and back. Task context, of a task without an address space. */
void user_chain_walk(const struct user_chain *user, uint64_t n);

/*
 * Walks of a chain in ring 3 that carry their number: their lengths, in groups of five, spell it.
 * A reader may begin anywhere, in the middle of a walk too, and knows from then on which branch has
 * to come next, and soon how many walks were made before.
 */
/* Whole walks that are certain to hold a group, wherever the first of them is. */
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

/* SPDX-License-Identifier: MIT */
/*
 * Branches of which each can be told from the next: a ring of 256 jumps in scrambled order, walked
 * for an exact number of branches. What a recorder leaves out, repeats or mixes up shows against
 * the sequence that is known. Two rings, so that two tasks share no address.
 *
 * A walk of `n` branches (two or more): the jump into the ring, n - 2 branches from site to site,
 * and the jump back behind the walk.
 */
#ifndef SPOOR_TESTS_LIB_CHAIN_H
#define SPOOR_TESTS_LIB_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/ds/area.h"

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
 * Follows walks of changing length in a stream of records that holds other branches too: walk k is
 * chain_walk(chain, chain_length(k)), k = 0, 1, ...
 */
uint64_t chain_length(uint64_t walk);

struct chain_reader {
	const struct chain *chain;
	uint64_t walk, i;     /* the branch that comes next */
	uint64_t seen, wrong; /* branches of the chain; those out of sequence */
	struct branch first_wrong, first_expected;
};

void chain_feed(struct chain_reader *reader, const struct bts_struct *record);

/* Fails the test unless exactly `walks` whole walks were seen, in sequence. */
void chain_expect_walks(const struct chain_reader *reader, uint64_t walks, const char *whose);

#endif

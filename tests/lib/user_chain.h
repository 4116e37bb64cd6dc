/* SPDX-License-Identifier: MIT */
/*
 * A chain that is walked in ring 3. Walk k of chain_length(k) = n branches leaves, of the branches
 * with both ends there, n - 2 from site to site and the jump behind them, to `exit`.
 */
#ifndef SPOOR_TESTS_LIB_USER_CHAIN_H
#define SPOOR_TESTS_LIB_USER_CHAIN_H

#include "tests/lib/chain.h"

struct user_chain {
	struct chain chain;
	uint64_t exit;
	/* Called when sched_break_user() ended a walk, which then goes on; NULL if nobody does. */
	void (*broken)(void);
};

/*
 * Maps chain number `number`, below 32; each has addresses of its own. Stays until
 * user_chain_close(), which must come before the test is over.
 */
void user_chain_open(struct user_chain *user, unsigned number);
void user_chain_close(const struct user_chain *user);

/* Branch `i`, below n - 1, of those with both ends in ring 3. */
struct branch user_chain_branch(const struct user_chain *user, uint64_t n, uint64_t i);

/* A walk of `n` branches, there and back. Task context, of a task without an address space. */
void user_chain_walk(const struct user_chain *user, uint64_t n);

#endif

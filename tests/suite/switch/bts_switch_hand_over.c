// SPDX-License-Identifier: MIT
/* Records on their way from the hardware to a task's ring, many times over. */
#include "kernel/sched/sched.h"
#include "kernel/trace/context.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#include <stdbool.h>

/* Records between two interrupts, at the most. */
#define THRESHOLD 1024

/* More walks than the buffer has room for: without the interrupt it would overflow. */
static void yield(struct walker *walker)
{
	if (walker->walked % 32 == 0)
		task_yield();
}

/*
 * Two traced tasks walk and take turns, rarely enough that the hardware's buffer fills up. Fails
 * the test unless records were handed over again and again and every branch came through, once.
 */
static void hand_over_walks(bool nmi)
{
	uint64_t walks = test_scaled(200), before = this_cpu()->trace->reached;
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = walks, .between = yield},
		{.name = "b", .chain = &chain_b, .walks = walks, .between = yield},
	};

	for (unsigned i = 0; i < 2; i++)
		walkers[i].options = walker_options(walks * 256);
	sched_set_slice(UINT32_MAX); /* a switch would empty the buffer before its threshold */
	trace_deliver_pmi(nmi);
	walkers_start(walkers, 2);
	walkers_join(walkers, 2);
	trace_deliver_pmi(true);
	sched_set_slice(1000);
	EXPECT(this_cpu()->trace->reached - before >= walks * 32 / THRESHOLD);
	walkers_check(walkers, 2);
}

TEST(bts_switch_hand_over_fixed, .group = "C", .ids = "T10 C4", .needs = NEED_BTS,
     .claim =
	     "the threshold's interrupt, by a fixed vector, hands a task's records over: none lost, none twice",
     .source = "docs/design.md#interrupt-at-the-threshold; SDM Vol 3, 17.4.9.5")
{
	hand_over_walks(false);
}

TEST(bts_switch_hand_over_nmi, .group = "C", .ids = "T10 C4", .needs = NEED_BTS,
     .claim =
	     "the threshold's interrupt, by NMI, hands a task's records over: none lost, none twice",
     .source = "docs/design.md#interrupt-at-the-threshold; SDM Vol 3, 17.4.9.5")
{
	hand_over_walks(true);
}

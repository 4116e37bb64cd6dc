// SPDX-License-Identifier: MIT
#include "kernel/sched/sched.h"
#include "kernel/trace/bts/private.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#include <stdbool.h>

/* Records on their way from the hardware to a task's ring, many times over. */

/* Records between two interrupts, at the most. */
#define THRESHOLD 1024

/* More walks than the buffer has room for: without the interrupt it would overflow. */
static void yield_rarely(struct walker *walker)
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
	uint64_t walks = test_scaled(200), before = bts_cpu(this_cpu())->reached;
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = walks, .between = yield_rarely},
		{.name = "b", .chain = &chain_b, .walks = walks, .between = yield_rarely},
	};

	for (unsigned i = 0; i < 2; i++)
		walkers[i].options = walker_options(walks * 256);
	sched_set_slice(UINT32_MAX); /* a switch would empty the buffer before its threshold */
	trace_deliver_pmi(nmi);
	walkers_start(walkers, 2);
	walkers_join(walkers, 2);
	trace_deliver_pmi(true);
	sched_set_slice(1000);
	EXPECT(bts_cpu(this_cpu())->reached - before >= walks * 32 / THRESHOLD);
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

/* Thresholds that are reached somewhere on the way through a switch. */

#define WALKS  128 /* each distance twice */
#define AHEAD  64
#define RECORD ds_configuration->record_size

static unsigned seen_pending;

/* Comes back from the switch with interrupts still off. */
static void reach_threshold(struct walker *walker)
{
	uint64_t flags = interrupts_save();
	uint64_t distance = walker->step++ % AHEAD * RECORD;
	struct bts_cpu *bts = bts_cpu(this_cpu());
	void *area = bts->staging[TRACE_USER].area; /* of all views */
	uint64_t before = bts->reached;

	ds_set(area, DS_BTS_INTERRUPT_THRESHOLD, ds_get(area, DS_BTS_INDEX) + distance);
	task_yield();
	seen_pending += bts->reached > before;
	interrupts_restore(flags);
}

/*
 * Two traced tasks take turns; before each turn the running one puts its threshold 0, 1, 2, ...
 * records ahead and gives up the CPU, so that over the turns it is reached at every branch of the
 * way out of the CPU and back. Interrupts stay off from there to the other task's turn: a PMI by
 * fixed vector (`nmi` false) pends across the switch. Fails the test unless no branch of either
 * was lost or came twice and no record was misplaced.
 */
static void threshold_at_switch(bool nmi)
{
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = WALKS, .between = reach_threshold},
		{.name = "b", .chain = &chain_b, .walks = WALKS, .between = reach_threshold},
	};

	seen_pending = 0;
	for (unsigned i = 0; i < 2; i++)
		walkers[i].options = walker_options(WALKS * 256);
	trace_deliver_pmi(nmi);
	walkers_start(walkers, 2);
	walkers_join(walkers, 2);
	trace_deliver_pmi(true);
	EXPECT(seen_pending > 0);
	test_observe("pending_at_switch", "%u of %u", seen_pending, 2 * WALKS);
	walkers_check(walkers, 2);
}

TEST(bts_switch_pending_fixed, .group = "C", .ids = "C4 T10", .needs = NEED_BTS,
     .claim =
	     "a threshold reached on the way through a switch loses no branch: a fixed vector that pends across the switch",
     .source = "docs/design.md#ownership; SDM Vol 3, 17.4.9.5")
{
	threshold_at_switch(false);
}

// An interrupt that the old task's buffer raised can arrive when the new task's is loaded: a
// handler that looks at the loaded area finds nothing, and the old buffer overflows later without
// another interrupt. Passing means: the switch itself notices, and no branch is missing or doubled.

TEST(bts_switch_pending_nmi, .group = "C", .ids = "C4 T10", .needs = NEED_BTS,
     .claim =
	     "a threshold reached on the way through a switch loses no branch: an NMI in the scheduler",
     .source = "docs/design.md#ownership; SDM Vol 3, 17.4.9.5")
{
	threshold_at_switch(true);
}

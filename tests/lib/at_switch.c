// SPDX-License-Identifier: MIT
#include "tests/lib/at_switch.h"

#include "kernel/lock.h"
#include "kernel/sched/sched.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#define WALKS		   128 /* each distance twice */
#define AHEAD		   64
#define REACHED_ON_THE_WAY 4 /* distances that the way out of the CPU covers at least */
#define RECORD		   ds_configuration->record_size

static struct walker *pair;
static unsigned seen_pending, reached;

/* Comes back from the switch with interrupts still off. */
static void reach_threshold(struct walker *walker)
{
	const struct walker *other = walker == &pair[0] ? &pair[1] : &pair[0];
	void *area = walker->context->area;
	uint64_t flags = interrupts_save();
	uint64_t distance = walker->step++ % AHEAD * RECORD;

	ds_set(area, DS_BTS_INTERRUPT_THRESHOLD, ds_get(area, DS_BTS_INDEX) + distance);
	task_yield();
	seen_pending += other->context->lease.overflowed;
	interrupts_restore(flags);
	reached += walker->context->handed_over > 0;
}

void threshold_at_switch(bool nmi)
{
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = WALKS, .between = reach_threshold},
		{.name = "b", .chain = &chain_b, .walks = WALKS, .between = reach_threshold},
	};

	pair = walkers;
	seen_pending = reached = 0;
	for (unsigned i = 0; i < 2; i++)
		walkers[i].options = walker_options(8192, 4096, WALKS * 256);
	trace_deliver_pmi(nmi);
	walkers_start(walkers, 2);
	walkers_join(walkers, 2);
	trace_deliver_pmi(true);
	EXPECT(seen_pending > 0);
	EXPECT(reached > 0);
	/* What is reached later may be over, with the next threshold set, when its interrupt comes.
	 */
	for (unsigned i = 0; i < 2; i++)
		EXPECT(walkers[i].context->handed_over >= WALKS / AHEAD * REACHED_ON_THE_WAY);
	test_observe("pending_at_switch", "%u of %u", seen_pending, 2 * WALKS);
	walkers_check(walkers, 2);
}

// SPDX-License-Identifier: MIT
#include "kernel/sched/sched.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#define SLICE	    500 /* microseconds; 1000 is what the kernel starts with */
#define MOST_ROUNDS 100
#define ENOUGH	    4

/* How often the two were preempted. On a busy host the timer may come late, or not at all. */
static uint64_t round(uint64_t walks)
{
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = walks},
		{.name = "b", .chain = &chain_b, .walks = walks},
	};
	uint64_t switches;

	for (unsigned i = 0; i < 2; i++)
		walkers[i].options = walker_options(walks * 256 + 8192);
	walkers_start(walkers, 2);
	walkers_join_reading(walkers, 2);
	switches = walkers[0].task->switches + walkers[1].task->switches;
	for (unsigned i = 0; i < 2; i++)
		walker_read(&walkers[i]);
	test_observe("other_records_per_walk_and_switch", "%lu",
		     (walkers[0].others + walkers[1].others) / (switches + 2 * walks));
	walkers_check(walkers, 2);
	return switches - 2;
}

TEST(bts_switch_preempted, .group = "C", .ids = "C4", .needs = NEED_BTS,
     .claim = "tasks that the timer preempts anywhere lose no branch to the switch",
     .source = "docs/design.md#losses")
{
	uint64_t walks = test_scaled(400), preempted = 0;

	sched_set_slice(SLICE);
	for (unsigned rounds = 0; rounds < MOST_ROUNDS && preempted <= ENOUGH; rounds++)
		preempted += round(walks);
	sched_set_slice(1000);
	EXPECT(preempted > ENOUGH);
	test_observe("preempted", "%lu", preempted);
}

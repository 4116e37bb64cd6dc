// SPDX-License-Identifier: MIT
#include "kernel/sched/sched.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#define SLICE 500 /* microseconds; 1000 is what the kernel starts with */

TEST(bts_switch_preempted, .group = "C", .ids = "C4", .needs = NEED_BTS,
     .claim = "tasks that the timer preempts anywhere lose no branch to the switch",
     .source = "design 4: numbers and losses are exact")
{
	uint64_t walks = test_scaled(400), switches;
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = walks},
		{.name = "b", .chain = &chain_b, .walks = walks},
	};

	for (unsigned i = 0; i < 2; i++)
		walkers[i].options = walker_options(walks * 256 + 8192);
	sched_set_slice(SLICE);
	walkers_start(walkers, 2);
	walkers_join_reading(walkers, 2);
	sched_set_slice(1000);
	switches = walkers[0].task->switches + walkers[1].task->switches;
	EXPECT(switches > 2); /* each ran, and one of them again */
	for (unsigned i = 0; i < 2; i++)
		walker_read(&walkers[i]);
	test_observe("switches", "%lu", switches);
	test_observe("other_records_per_walk_and_switch", "%lu",
		     (walkers[0].others + walkers[1].others) / (switches + 2 * walks));
	walkers_check(walkers, 2);
}

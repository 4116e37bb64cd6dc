// SPDX-License-Identifier: MIT
#include "kernel/sched/sched.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

static void yield(struct walker *walker)
{
	(void)walker;
	task_yield();
}

TEST(bts_switch_own_records, .group = "C", .ids = "C1", .needs = NEED_BTS,
     .claim =
	     "of two tasks that take turns each has its own branches in its buffer, and all of them",
     .source = "docs/design.md#contexts")
{
	uint64_t walks = test_scaled(300), before = sched_switch_count();
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = walks, .between = yield},
		{.name = "b", .chain = &chain_b, .walks = walks, .between = yield},
	};

	for (unsigned i = 0; i < 2; i++)
		walkers[i].options = walker_options(walks * 128 + 4096);
	walkers_start(walkers, 2);
	walkers_join_reading(walkers, 2);
	EXPECT(sched_switch_count() - before >= 2 * walks);
	walkers_check(walkers, 2);
}

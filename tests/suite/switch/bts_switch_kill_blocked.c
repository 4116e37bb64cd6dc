// SPDX-License-Identifier: MIT
#include "kernel/sched/sched.h"
#include "tests/framework/test.h"
#include "tests/lib/ended.h"

#define NAP 60000000 /* microseconds */

/* Until it is killed, however late that is. */
static void sleep_at_last(struct walker *walker)
{
	while (walker->walked == walker->walks - 1)
		task_sleep(NAP);
}

TEST(bts_switch_kill_blocked, .group = "C", .ids = "C5", .needs = NEED_BTS,
     .claim = "a traced task killed in its sleep is not written for any more, nor woken",
     .source = "docs/design.md#accounts")
{
	struct walker walker = {.name = "asleep",
				.chain = &chain_a,
				.walks = 10,
				.options = walker_options(8192),
				.between = sleep_at_last};

	walkers_start(&walker, 1);
	while (walker.task->state != TASK_BLOCKED)
		task_yield();
	task_kill(walker.task);
	walkers_join(&walker, 1);
	EXPECT(!walker.task->sleep.running); /* what was to wake it */
	ended_expect(&walker);
	EXPECT_EQ(walker.reader.walk, walker.walks - 1);
}

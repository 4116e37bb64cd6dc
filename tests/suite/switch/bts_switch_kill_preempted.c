// SPDX-License-Identifier: MIT
#include "kernel/sched/sched.h"
#include "tests/framework/test.h"
#include "tests/lib/ended.h"

TEST(bts_switch_kill_preempted, .group = "C", .ids = "C5", .needs = NEED_BTS,
     .claim = "a traced task killed in the middle of what it does is not written for any more",
     .source = "docs/design.md#accounts")
{
	struct walker walker = {.name = "killed",
				.chain = &chain_a,
				.walks = UINT64_MAX,
				.options = walker_options(262144)};

	sched_set_slice(500);
	walkers_start(&walker, 1);
	while (walker.walked < 20) {
		walker_read(&walker);
		task_yield();
	}
	sched_set_slice(1000);
	EXPECT_EQ(walker.task->state, TASK_READY);
	task_kill(walker.task);
	walkers_join(&walker, 1);
	ended_expect(&walker);
}

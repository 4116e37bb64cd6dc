// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "tests/framework/test.h"
#include "tests/lib/sight.h"
#include "tests/lib/stage.h"

#define WALKS (3 * STAGE)

static void finish(struct sight *sight, uint64_t walks)
{
	sight_read(sight);
	sight_expect(sight, walks);
	sight_close(sight);
}

TEST(trace_comes_and_goes, .group = "tracers", .ids = "S3", .needs = NEED_BTS,
     .claim =
	     "the first tracer of a task leaves and another comes in the middle: the others lose nothing",
     .source = "docs/design.md#tracers")
{
	struct user_chain user;
	struct walker walker = stage_walker(&user, WALKS);
	struct trace_options options = sight_options(TRACE_USER | TRACE_KERNEL, WALKS * 2);
	struct trace_options in_user = sight_options(TRACE_USER, WALKS);
	struct sight first, second, third, all;

	user_chain_open(&user, 0);
	walkers_create(&walker, 1);
	sight_open(&first, &walker, &options);
	sight_open(&second, &walker, &options);
	sight_open_cpu(&all, &walker, this_cpu()->index, &in_user);
	stage_next(&walker, STAGE);
	finish(&first, STAGE);
	stage_next(&walker, 2 * STAGE);
	sight_open(&third, &walker, &in_user);
	third.user.walk = third.exits = 2 * STAGE;
	stage_last(&walker);
	EXPECT_EQ(third.in_user, 0);
	third.in_user = 2 * STAGE; /* as many exits as it did not see */
	finish(&second, WALKS);
	finish(&third, WALKS);
	finish(&all, WALKS);
	walker_end(&walker);
	user_chain_close(&user);
}

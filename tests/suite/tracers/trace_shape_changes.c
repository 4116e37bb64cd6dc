// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "tests/framework/test.h"
#include "tests/lib/sight.h"
#include "tests/lib/stage.h"

#define WALKS (5 * STAGE)

/* The shape of what was recorded since the stage before. */
static void expect_circular(const struct sight *sight, bool expected)
{
	struct trace_status status;

	trace_status(sight->tracer, &status);
	EXPECT_EQ(status.circular, expected);
}

TEST(trace_shape_changes, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim =
	     "a trace whose shape goes from circular to linear and back, twice, loses nothing and keeps its order",
     .source = "docs/design.md#shapes")
{
	struct user_chain user;
	struct walker walker = stage_walker(&user, WALKS);
	struct trace_options options = sight_options(TRACE_USER | TRACE_KERNEL, WALKS * 4);
	struct sight first, second;

	options.overflow = TRACE_WRAP;
	user_chain_open(&user, 0);
	walkers_create(&walker, 1);
	sight_open(&first, &walker, &options);
	stage_next(&walker, STAGE);
	expect_circular(&first, true);
	sight_open(&second, &walker, &options);
	stage_next(&walker, 2 * STAGE);
	expect_circular(&first, false);
	sight_close(&second);
	stage_next(&walker, 3 * STAGE);
	expect_circular(&first, true);
	sight_open_cpu(&second, &walker, this_cpu()->index, &options);
	stage_next(&walker, 4 * STAGE);
	expect_circular(&first, false);
	sight_close(&second);
	stage_last(&walker);
	expect_circular(&first, true);
	sight_read(&first);
	sight_expect(&first, WALKS);
	sight_close(&first);
	walker_end(&walker);
	user_chain_close(&user);
}

// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/sight.h"
#include "tests/lib/stage.h"

#define WALKS (3 * STAGE)

static void refuse(struct tracer *tracer, const struct trace_options *options, int expected)
{
	struct trace_status before, after;

	trace_status(tracer, &before);
	EXPECT_EQ(trace_change(tracer, options), expected);
	trace_status(tracer, &after);
	EXPECT_EQ(after.view, before.view);
	EXPECT_EQ(after.overflow, before.overflow);
	EXPECT_EQ(after.available, before.available);
	EXPECT_EQ(after.size, before.size);
	EXPECT(!after.full && !after.held && !after.lost);
}

static void refuse_all(struct tracer *tracer, struct trace_options options)
{
	options.view = 4;
	refuse(tracer, &options, -EINVAL);
	options.view = TRACE_KERNEL;
	options.privileged = false;
	refuse(tracer, &options, -EPERM);
	options.privileged = true;
	options.overflow = TRACE_STOP + 1;
	refuse(tracer, &options, -EINVAL);
	options.overflow = TRACE_STOP;
	options.threshold = SIZE_MAX;
	refuse(tracer, &options, -EINVAL);
}

/* Ring 3, then nothing, then the kernel; a change that is refused changes nothing. */
TEST(trace_changes, .group = "tracers", .ids = "I4", .needs = NEED_BTS,
     .claim = "a tracer changes its view, pauses and goes on while attached, and sees just that",
     .source = "kernel/trace/trace.h")
{
	struct user_chain user;
	struct walker walker = stage_walker(&user, WALKS);
	struct trace_options options = sight_options(TRACE_USER | TRACE_KERNEL, WALKS * 4);
	struct sight sight;

	options.view = TRACE_USER;
	user_chain_open(&user, 0);
	walkers_create(&walker, 1);
	sight_open(&sight, &walker, &options);
	stage_next(&walker, STAGE);
	sight_read(&sight);
	sight_expect(&sight, STAGE);
	options.paused = true;
	EXPECT_EQ(trace_change(sight.tracer, &options), 0);
	stage_next(&walker, 2 * STAGE);
	EXPECT_EQ(trace_available(sight.tracer), 0);
	refuse_all(sight.tracer, options);
	options.paused = false;
	options.view = sight.view = TRACE_KERNEL;
	EXPECT_EQ(trace_change(sight.tracer, &options), 0);
	sight.kernel.walk = 2 * STAGE;
	sight.user = (struct chain_reader){.chain = &user.chain};
	sight.exits = sight.in_user = 0;
	stage_last(&walker);
	sight_read(&sight);
	sight_expect(&sight, WALKS);
	sight_close(&sight);
	walker_end(&walker);
	user_chain_close(&user);
}

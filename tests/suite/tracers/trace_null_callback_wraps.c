// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/sight.h"

#define WALKS 40
#define SLOTS 200

TEST(trace_null_callback_wraps, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim = "without a function to call at its threshold a buffer wraps, and holds nothing up",
     .source = "docs/design.md#overflow")
{
	static struct ptrace_bts_record records[SLOTS + 1];
	struct user_chain user;
	struct walker walker = {.name = "alone", .chain = &chain_a, .walks = WALKS, .user = &user};
	struct trace_options options = sight_options(TRACE_USER, 0);
	struct tracer *tracer = NULL;
	struct trace_status status;
	struct branch last;

	options.overflow = TRACE_SIGNAL;
	options.overflowed = NULL;
	options.size = SLOTS * sizeof(records[0]);
	user_chain_open(&user, 0);
	walkers_create(&walker, 1);
	REQUIRE_EQ(trace_attach(walker.task, &options, &tracer), 0);
	task_start(walker.task);
	walkers_join(&walker, 1);
	EXPECT_EQ(walker.walked, WALKS);
	trace_status(tracer, &status);
	EXPECT_EQ(status.overflow, TRACE_WRAP);
	EXPECT(!status.held);
	EXPECT(status.lost > 0);
	EXPECT_EQ(trace_read(tracer, records, SLOTS + 1), SLOTS);
	last = user_chain_branch(&user, chain_length(WALKS - 1), chain_length(WALKS - 1) - 2);
	EXPECT_EQ(records[SLOTS - 1].from, last.from);
	EXPECT_EQ(records[SLOTS - 1].to, last.to);
	EXPECT(trace_detach(tracer));
	walker_end(&walker);
	user_chain_close(&user);
}

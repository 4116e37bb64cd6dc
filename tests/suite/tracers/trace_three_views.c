// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "tests/framework/test.h"
#include "tests/lib/held.h"

#define WALKS 30

TEST(trace_three_views, .group = "tracers", .ids = "S3", .needs = NEED_BTS,
     .claim =
	     "a tracer that wraps, one that is told, and one of the CPU see each its own view of one task",
     .source = "docs/design.md#tracers; docs/design.md#views")
{
	struct user_chain user;
	struct walker walker = {.name = "watched",
				.chain = &chain_a,
				.walks = WALKS,
				.user = &user,
				.between = held_wait};
	struct trace_options options = sight_options(TRACE_KERNEL, WALKS * 16);
	struct trace_status status;
	struct sight wrapping, all;
	struct held held;

	user_chain_open(&user, 0);
	walkers_create(&walker, 1);
	options.overflow = TRACE_WRAP;
	sight_open(&wrapping, &walker, &options);
	options = sight_options(TRACE_USER, 0);
	options.size = 300 * sizeof(struct ptrace_bts_record);
	held_open(&held, &walker, &user, options);
	options = sight_options(TRACE_USER, WALKS);
	sight_open_cpu(&all, &walker, this_cpu()->index, &options);
	task_start(walker.task);
	held_join(&held, &walker);
	held_close(&held, WALKS);
	sight_read(&wrapping);
	sight_expect(&wrapping, WALKS);
	held_expect_waits(&held, &wrapping);
	sight_read(&all);
	sight_expect(&all, WALKS);
	trace_status(all.tracer, &status);
	EXPECT(!status.circular);
	sight_close(&wrapping);
	sight_close(&all);
	walker_end(&walker);
	user_chain_close(&user);
}

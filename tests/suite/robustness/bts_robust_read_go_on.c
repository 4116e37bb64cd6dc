// SPDX-License-Identifier: MIT
// Linux tested its driver at boot: stop, read twice, go on, stop, compare. This is that cycle, many
// times, with every branch known. Passing means: a stopped trace is stable, whole and in order, and
// nothing is missing between two readings.
#include "kernel/sched/sched.h"
#include "tests/framework/test.h"
#include "tests/lib/sight.h"

#define TIMES 250 /* a thousand with scale=400 */

static atomic_bool go;

static void wait(struct walker *walker)
{
	(void)walker;
	while (!atomic_exchange(&go, false))
		task_yield();
}

/* Stopped it reads the same twice; every record is a branch; nothing is missing in the end. */
TEST(bts_robust_read_go_on, .group = "Z", .ids = "Z4", .needs = NEED_BTS,
     .claim = "a trace is stopped, read and gone on with again and again: stable, whole, in order",
     .source = "docs/bts.md#self-test-of-linux; Linux 2.6.32, ds_selftest.c")
{
	uint64_t times = test_scaled(TIMES);
	struct user_chain user;
	struct walker walker = {.name = "watched",
				.chain = &chain_a,
				.walks = times,
				.user = &user,
				.between = wait};
	struct trace_options options = sight_options(TRACE_USER, 0);
	struct sight sight;
	size_t unstable = 0;

	options.overflow = TRACE_WRAP;
	user_chain_open(&user, 0);
	walkers_create(&walker, 1);
	sight_open(&sight, &walker, &options);
	task_start(walker.task);
	for (uint64_t i = 0; i < times; i++) {
		struct ptrace_bts_record newest, again;

		while (((volatile struct walker *)&walker)->walked <= i && !walker.task->ended)
			task_yield();
		unstable += trace_get(sight.tracer, 0, &newest) != 0 ||
			    trace_get(sight.tracer, 0, &again) != 0 || newest.from != again.from ||
			    newest.to != again.to;
		sight_read(&sight);
		unstable += trace_available(sight.tracer) != 0;
		atomic_store(&go, true);
	}
	walkers_join(&walker, 1);
	EXPECT_EQ(unstable, 0);
	sight_expect(&sight, times);
	sight_close(&sight);
	walker_end(&walker);
	user_chain_close(&user);
}

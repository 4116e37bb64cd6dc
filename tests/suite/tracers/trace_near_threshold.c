// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/trace/context.h"
#include "tests/framework/test.h"
#include "tests/lib/held.h"

#define WALKS 60

static void ignore(struct tracer *tracer, void *argument)
{
	(void)tracer;
	(void)argument;
}

/* One that is told of ring 3, where this task never goes, is one record from its threshold. */
static void trace(bool nmi)
{
	struct user_chain user = {.chain = chain_b};
	struct walker walker = {.name = "near", .chain = &chain_a, .walks = WALKS};
	struct trace_options options = walker_options(WALKS * 256 + 4096);
	struct tracer *near = NULL;
	uint64_t before, count;
	struct sight sight;

	walkers_create(&walker, 1);
	walker.user = &user;
	sight_open(&sight, &walker, &options);
	walker.user = NULL;
	options = walker_options(2);
	options.view = TRACE_USER;
	options.overflow = TRACE_SIGNAL;
	options.overflowed = ignore;
	EXPECT_EQ(trace_attach(walker.task, &options, &near), 0);
	before = this_cpu()->trace->reached;
	trace_deliver_pmi(nmi);
	task_start(walker.task);
	walkers_join(&walker, 1);
	trace_deliver_pmi(true);
	count = this_cpu()->trace->reached - before;
	EXPECT(count > 0);
	sight_read(&sight);
	chain_expect_walks(&sight.kernel, WALKS, "kernel");
	test_observe(nmi ? "own_records_of_nmi" : "own_records_of_fixed", "%lu",
		     (sight.in_kernel - sight.kernel.seen) / (count ? count : 1));
	EXPECT_EQ(trace_available(near), 0);
	EXPECT(trace_detach(near));
	sight_close(&sight);
	walker_end(&walker);
}

TEST(trace_near_threshold, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim =
	     "a task whose tracer is one record from its threshold gets on, whatever else it records",
     .source = "docs/design.md#overflow")
{
	trace(true);
	trace(false);
}

// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "kernel/trace/context.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#define ROUNDS 32

static atomic_uint told;

static void tell(struct tracer *tracer, void *argument)
{
	(void)tracer;
	(void)argument;
	atomic_fetch_add(&told, 1);
}

static void yield(struct walker *walker)
{
	(void)walker;
	task_yield();
}

/* Where the threshold was crossed on its way out of the CPU its owner is told only after the kill.
 */
static void kill_one(unsigned round)
{
	struct walker walker = {.name = "killed",
				.chain = &chain_a,
				.walks = UINT64_MAX,
				.options = walker_options(4096),
				.between = yield};
	unsigned before = atomic_load(&told), after;
	struct trace_status status;
	uint64_t flags, walked;

	walker.options.overflow = TRACE_SIGNAL;
	walker.options.overflowed = tell;
	walker.options.threshold = 4 * round + 4;
	flags = interrupts_save();
	walkers_start(&walker, 1);
	do
		task_yield();
	while (walker.walked < 1 || !trace_is_held(walker.tracer));
	walked = walker.walked;
	task_kill(walker.task);
	interrupts_restore(flags);
	walkers_join(&walker, 1);
	trace_status(walker.tracer, &status);
	EXPECT(status.held);
	EXPECT(status.ended);
	EXPECT(status.available >= walker.options.threshold);
	EXPECT_EQ(status.lost, 0);
	EXPECT(!status.truncated);
	walker_read(&walker);
	EXPECT_EQ(walker.reader.wrong, 0);
	EXPECT(walker.reader.walk <= walked + 1); /* it may not have counted it yet */
	trace_resume(walker.tracer);
	after = atomic_load(&told);
	EXPECT_EQ(after, before + 1);
	walker_end(&walker);
	EXPECT_EQ(atomic_load(&told), after);
}

TEST(trace_signal_while_killed, .group = "tracers", .ids = "C5 T10", .needs = NEED_BTS,
     .claim =
	     "a task killed while its tracer's threshold is being crossed: told once, nothing lost or freed early",
     .source = "docs/design.md#overflow; docs/design.md#accounts")
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		trace_deliver_pmi(round % 2);
		kill_one(round);
	}
	trace_deliver_pmi(true);
}

// SPDX-License-Identifier: MIT
// Memory freed while the hardware could still write to it is the oldest bug of these drivers: Linux
// had it in 2008 and again in 2025. Passing means: a task killed with its interrupt pending keeps
// its records, and its memory is given back only when no CPU has its area loaded.
#include "kernel/lock.h"
#include "kernel/sched/sched.h"
#include "kernel/trace/context.h"
#include "tests/framework/test.h"
#include "tests/lib/ended.h"

/* The threshold is reached on the way out of the CPU, interrupts off. */
static void reach_threshold(struct walker *walker)
{
	uint64_t flags = interrupts_save();
	void *area = this_cpu()->trace->staging[TRACE_USER].area; /* of all views */

	(void)walker;

	ds_set(area, DS_BTS_INTERRUPT_THRESHOLD,
	       ds_get(area, DS_BTS_INDEX) + 6 * ds_configuration->record_size);
	task_yield();
	interrupts_restore(flags);
}

TEST(bts_switch_kill_pending, .group = "C", .ids = "C5", .needs = NEED_BTS,
     .claim =
	     "a traced task is killed while the interrupt that its trace raised still pends: no record is lost",
     .source = "docs/design.md#accounts")
{
	struct walker walker = {.name = "pending",
				.chain = &chain_a,
				.walks = UINT64_MAX,
				.options = walker_options(65536),
				.between = reach_threshold};
	bool pending = false;
	uint64_t walked = 0;

	trace_deliver_pmi(false);
	walkers_start(&walker, 1);
	while (!pending && walker.walked < 100) {
		uint64_t flags = interrupts_save(), before = this_cpu()->trace->reached;

		task_yield();
		pending = walker.walked > 2 && this_cpu()->trace->reached > before;
		if (pending) {
			walked = walker.walked;
			task_kill(walker.task);
		}
		interrupts_restore(flags);
	}
	EXPECT(pending);
	if (!pending)
		task_kill(walker.task);
	walkers_join(&walker, 1);
	trace_deliver_pmi(true);
	ended_expect(&walker);
	EXPECT_EQ(walker.reader.walk, walked);
}

// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "kernel/trace/context.h"
#include "tests/lib/rig.h"
#include "tests/lib/walker.h"

#define WALKS 50

static void yield(struct walker *walker)
{
	(void)walker;
	task_yield();
}

/* The test's own task is the untraced one. */
static void run_untraced(const struct walker *traced)
{
	const struct trace_ring *ring = &traced->tracer->ring;
	const void *staging = this_cpu()->trace->staging[TRACE_USER].area;
	uint64_t index, hardware_index;

	preemption_disable();
	index = ring->index;
	hardware_index = ds_get(staging, DS_BTS_INDEX);
	EXPECT_EQ(rdmsr(IA32_DEBUGCTL) & (ds_configuration->tr | ds_configuration->bts), 0);
	EXPECT_EQ(rdmsr(IA32_DS_AREA), this_cpu()->ds.idle->area);
	EXPECT(!this_cpu()->ds.loaded);
	chain_walk(&chain_b, 100);
	EXPECT_EQ(ring->index, index);
	EXPECT_EQ(ds_get(staging, DS_BTS_INDEX), hardware_index);
	preemption_enable();
}

TEST(bts_switch_untraced_frozen, .group = "C", .ids = "C2", .needs = NEED_BTS,
     .claim = "while an untraced task runs TR and BTS are clear and the other's index stands still",
     .source = "docs/design.md#ownership")
{
	struct walker walker = {.name = "traced",
				.chain = &chain_a,
				.walks = WALKS,
				.options = walker_options(WALKS * 256),
				.between = yield};
	unsigned turns = 0;

	walkers_start(&walker, 1);
	while (!walker.task->ended) {
		run_untraced(&walker);
		turns++;
		task_yield();
	}
	walkers_join(&walker, 1);
	EXPECT(turns > 0);
	walkers_check(&walker, 1);
}

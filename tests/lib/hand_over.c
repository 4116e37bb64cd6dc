// SPDX-License-Identifier: MIT
#include "tests/lib/hand_over.h"

#include "kernel/sched/sched.h"
#include "kernel/trace/context.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

/* Records between two interrupts, at the most. */
#define THRESHOLD 1024

/* More walks than the buffer has room for: without the interrupt it would overflow. */
static void yield(struct walker *walker)
{
	if (walker->walked % 32 == 0)
		task_yield();
}

void hand_over_walks(bool nmi)
{
	uint64_t walks = test_scaled(200), before = this_cpu()->trace->reached;
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = walks, .between = yield},
		{.name = "b", .chain = &chain_b, .walks = walks, .between = yield},
	};

	for (unsigned i = 0; i < 2; i++)
		walkers[i].options = walker_options(walks * 256);
	sched_set_slice(UINT32_MAX); /* a switch would empty the buffer before its threshold */
	trace_deliver_pmi(nmi);
	walkers_start(walkers, 2);
	walkers_join(walkers, 2);
	trace_deliver_pmi(true);
	sched_set_slice(1000);
	EXPECT(this_cpu()->trace->reached - before >= walks * 32 / THRESHOLD);
	walkers_check(walkers, 2);
}

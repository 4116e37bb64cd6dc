// SPDX-License-Identifier: MIT
#include "tests/lib/hand_over.h"

#include "kernel/sched/sched.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#define STAGING 768
#define MARGIN	512 /* the way from the interrupt to the work that it raises must fit */

/* More walks than the buffer has room for: without the interrupt it would overflow. */
static void yield(struct walker *walker)
{
	if (walker->walked % 32 == 0)
		task_yield();
}

void hand_over_walks(bool nmi)
{
	uint64_t walks = test_scaled(200);
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = walks, .between = yield},
		{.name = "b", .chain = &chain_b, .walks = walks, .between = yield},
	};

	for (unsigned i = 0; i < 2; i++)
		walkers[i].options = walker_options(STAGING, MARGIN, walks * 256 + STAGING);
	trace_deliver_pmi(nmi);
	walkers_start(walkers, 2);
	walkers_join(walkers, 2);
	trace_deliver_pmi(true);
	for (unsigned i = 0; i < 2; i++)
		EXPECT(walkers[i].context->handed_over >= walks * 32 / STAGING);
	walkers_check(walkers, 2);
}

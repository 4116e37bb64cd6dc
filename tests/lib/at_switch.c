// SPDX-License-Identifier: MIT
#include "tests/lib/at_switch.h"

#include "kernel/sched/sched.h"
#include "kernel/trace/context.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#define WALKS  128 /* each distance twice */
#define AHEAD  64
#define RECORD ds_configuration->record_size

static unsigned seen_pending;

/* Comes back from the switch with interrupts still off. */
static void reach_threshold(struct walker *walker)
{
	uint64_t flags = interrupts_save();
	uint64_t distance = walker->step++ % AHEAD * RECORD;
	struct trace_cpu *trace = this_cpu()->trace;
	void *area = trace->staging[TRACE_USER].area; /* of all views */
	uint64_t before = trace->reached;

	ds_set(area, DS_BTS_INTERRUPT_THRESHOLD, ds_get(area, DS_BTS_INDEX) + distance);
	task_yield();
	seen_pending += trace->reached > before;
	interrupts_restore(flags);
}

void threshold_at_switch(bool nmi)
{
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = WALKS, .between = reach_threshold},
		{.name = "b", .chain = &chain_b, .walks = WALKS, .between = reach_threshold},
	};

	seen_pending = 0;
	for (unsigned i = 0; i < 2; i++)
		walkers[i].options = walker_options(WALKS * 256);
	trace_deliver_pmi(nmi);
	walkers_start(walkers, 2);
	walkers_join(walkers, 2);
	trace_deliver_pmi(true);
	EXPECT(seen_pending > 0);
	test_observe("pending_at_switch", "%u of %u", seen_pending, 2 * WALKS);
	walkers_check(walkers, 2);
}

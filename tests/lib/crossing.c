// SPDX-License-Identifier: MIT
#include "tests/lib/crossing.h"

#include "kernel/cpu.h"
#include "kernel/trace/context.h"
#include "tests/framework/test.h"

#define WALKS 64

static void (*on_the_way)(struct tracer *tracer);
static unsigned crossed;

/* What stands in the staging of this CPU has yet to come to the ring. */
static void put_threshold(struct tracer *tracer, size_t ahead)
{
	void *area = this_cpu()->trace->staging[TRACE_USER].area; /* of all views */
	size_t staged = ds_get_bts_index(area) + ahead;

	tracer->options.threshold = tracer->ring.used + staged;
	ds_set(area, DS_BTS_INTERRUPT_THRESHOLD,
	       ds_get(area, DS_BTS_BUFFER_BASE) + staged * ds_configuration->record_size);
}

static void cross(struct walker *walker)
{
	struct tracer *tracer = walker->tracer;
	uint64_t flags = interrupts_save();

	put_threshold(tracer, walker->step++);
	on_the_way(tracer);
	tracer->options.threshold = SIZE_MAX;
	interrupts_restore(flags);
	held_wait(walker);
}

static void walk(struct user_chain *user, bool nmi)
{
	struct walker walker = {.name = "crosses",
				.chain = &chain_a,
				.walks = WALKS,
				.user = user,
				.between = cross};
	struct held held;

	trace_deliver_pmi(nmi);
	walkers_create(&walker, 1);
	held_open(&held, &walker, user, sight_options(TRACE_USER | TRACE_KERNEL, WALKS));
	walker.tracer = held.sight.tracer;
	held.sight.tracer->options.threshold = SIZE_MAX;
	task_start(walker.task);
	held_join(&held, &walker);
	trace_deliver_pmi(true);
	crossed += atomic_load(&held.told);
	held_close(&held, WALKS);
	walker.tracer = NULL;
	walker_end(&walker);
}

void crossing_walks(void (*way)(struct tracer *tracer))
{
	struct user_chain user;

	on_the_way = way;
	crossed = 0;
	user_chain_open(&user, 0);
	walk(&user, false);
	walk(&user, true);
	user_chain_close(&user);
	EXPECT(crossed > 0);
	test_observe("crossed_on_the_way", "%u of %u", crossed, 2 * WALKS);
}

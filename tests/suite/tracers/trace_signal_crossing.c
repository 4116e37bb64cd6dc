// SPDX-License-Identifier: MIT
/* A tracer in TRACE_SIGNAL whose threshold is reached where the test wants it. */
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "kernel/trace/context.h"
#include "tests/framework/test.h"
#include "tests/lib/held.h"

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

/*
 * A task that walks in the kernel and in ring 3 is traced in all; after each walk its threshold is
 * put 0, 1, 2, ... records ahead, with interrupts off, and it calls `way`, on whose way the
 * threshold is crossed. Fails the test unless that happened and nothing is missing or came twice,
 * with the interrupt delivered either way.
 */
static void crossing_walks(void (*way)(struct tracer *tracer))
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

static unsigned wrong;

/* What the call itself finds it also says. */
static void ask(struct tracer *tracer)
{
	struct trace_status status;

	trace_status(tracer, &status);
	wrong += status.held != (status.available >= tracer->options.threshold);
	wrong += status.lost || status.truncated;
}

TEST(trace_signal_in_own_call, .group = "tracers", .ids = "T10", .needs = NEED_BTS,
     .claim =
	     "a tracer's threshold that is crossed inside a call of its interface loses and doubles nothing",
     .source = "docs/design.md#overflow")
{
	wrong = 0;
	crossing_walks(ask);
	EXPECT_EQ(wrong, 0);
}

static void yield(struct tracer *tracer)
{
	(void)tracer;
	task_yield();
}

TEST(trace_signal_in_switch, .group = "tracers", .ids = "C4 T10", .needs = NEED_BTS,
     .claim =
	     "a tracer's threshold that is crossed inside a context switch loses and doubles nothing",
     .source = "docs/design.md#overflow")
{
	crossing_walks(yield);
}

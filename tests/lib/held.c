// SPDX-License-Identifier: MIT
#include "tests/lib/held.h"

#include "kernel/sched/sched.h"
#include "kernel/trace/bts/private.h"
#include "tests/framework/test.h"

static struct held *now;

static void tell(struct tracer *tracer, void *argument)
{
	(void)tracer;
	atomic_fetch_add(&((struct held *)argument)->told, 1);
}

static void wait(void)
{
	do {
		chain_walk(&chain_b, chain_length(now->waits++));
		task_yield(); /* what was recorded so far goes to the rings */
	} while (trace_is_held(now->viewer.tracer) || atomic_load(&now->told) != now->served);
}

void held_wait(struct walker *walker)
{
	(void)walker;
	wait();
}

void held_open(struct held *held, struct walker *walker, struct user_chain *user,
	       struct bts_options options)
{
	*held = (struct held){0};
	now = held;
	user->broken = wait;
	options.overflow = TRACE_SIGNAL;
	options.overflowed = tell;
	options.argument = held;
	viewer_open(&held->viewer, walker, &options);
}

static void serve(struct held *held)
{
	uint64_t threshold = bts_of(held->viewer.tracer)->options.threshold;
	uint64_t count = bts_available(held->viewer.tracer);

	if (count > threshold && count - threshold > held->most_over)
		held->most_over = count - threshold;
	viewer_read(&held->viewer);
	trace_resume(held->viewer.tracer);
	held->served++;
}

void held_join(struct held *held, struct walker *walker)
{
	while (!walker->task->ended) {
		if (atomic_load(&held->told) != held->served)
			serve(held);
		task_yield();
	}
	walkers_join(walker, 1);
}

void held_expect_waits(const struct held *held, const struct viewer *other)
{
	EXPECT(held->waits > held->served);
	chain_expect_walks(&other->waiting, held->waits, "waiting");
}

void held_close(struct held *held, uint64_t walks)
{
	struct bts_status status;

	bts_status(held->viewer.tracer, &status);
	EXPECT_EQ(atomic_load(&held->told), held->served + status.held);
	EXPECT(held->served > 0);
	viewer_read(&held->viewer);
	viewer_expect(&held->viewer, walks);
	viewer_close(&held->viewer);
}

// SPDX-License-Identifier: MIT
#include "kernel/sched/sched.h"
#include "kernel/trace/context.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#define SLOTS 5
#define TURNS 120

static size_t past_the_end, in_last_slot;

static void yield(struct walker *walker)
{
	const struct trace_ring *ring = &walker->tracer->ring;

	task_yield();
	past_the_end += ring->index >= ring->slots || ring->used > ring->size;
	in_last_slot += ring->index <= 1; /* the stamp of arrival, or that of departure before it */
}

/* The trace of a whole life in a few slots, and what stood there before it. */
static size_t trace(enum trace_overflow overflow, struct ptrace_bts_record records[SLOTS])
{
	struct walker walker = {.name = "short",
				.chain = &chain_a,
				.walks = TURNS,
				.options = walker_options(SLOTS),
				.between = yield};
	struct bts_struct empty;
	size_t count;

	walker.options.overflow = overflow;
	walker.options.stamps = true;
	walkers_create(&walker, 1);
	EXPECT_EQ(ds_read_bts(walker.tracer->ring.area, SLOTS - 1, &empty), 0);
	EXPECT_EQ(empty.qualifier, BTS_INVALID);
	task_start(walker.task);
	walkers_join(&walker, 1);
	count = trace_read(walker.tracer, records, SLOTS);
	walker_end(&walker);
	return count;
}

TEST(bts_stamps_last_slot, .group = "A", .ids = "A4", .needs = NEED_BTS,
     .claim =
	     "a stamp in the last slot goes round, or ends a full trace; an empty slot is no record",
     .source = "docs/design.md#stamps")
{
	struct ptrace_bts_record records[SLOTS];

	past_the_end = in_last_slot = 0;
	EXPECT_EQ(trace(TRACE_WRAP, records), SLOTS);
	for (unsigned i = 0; i < SLOTS - 1; i++)
		EXPECT_EQ(records[i].qualifier, PTRACE_BTS_BRANCH);
	EXPECT_EQ(records[SLOTS - 1].qualifier, PTRACE_BTS_TASK_DEPARTS);
	EXPECT(in_last_slot > 0);
	EXPECT_EQ(trace(TRACE_STOP, records), SLOTS);
	EXPECT_EQ(records[0].qualifier, PTRACE_BTS_TASK_ARRIVES);
	for (unsigned i = 1; i < SLOTS - 1; i++)
		EXPECT_EQ(records[i].qualifier, PTRACE_BTS_BRANCH);
	EXPECT_EQ(records[SLOTS - 1].qualifier, PTRACE_BTS_TASK_DEPARTS);
	EXPECT_EQ(past_the_end, 0);
}

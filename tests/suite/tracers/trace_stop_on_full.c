// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/sight.h"
#include "tests/lib/stage.h"

#define WALKS (2 * STAGE)
#define SLOTS 50

static size_t read_in_sequence(struct tracer *tracer, const struct user_chain *user, uint64_t walk)
{
	struct ptrace_bts_record record;
	uint64_t i = 0;
	size_t right = 0;

	while (trace_read(tracer, &record, 1)) {
		struct branch due = user_chain_branch(user, chain_length(walk), i);

		right += record.from == due.from && record.to == due.to;
		if (++i == chain_length(walk) - 1) {
			i = 0;
			walk++;
		}
	}
	return right;
}

TEST(trace_stop_on_full, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim =
	     "a tracer that stops when full keeps the first records, goes on when resumed; others go on",
     .source = "docs/design.md#overflow")
{
	struct user_chain user;
	struct walker walker = stage_walker(&user, WALKS);
	struct trace_options all = sight_options(TRACE_USER | TRACE_KERNEL, WALKS * 4), few = all;
	struct trace_status status;
	struct tracer *tracer = NULL;
	struct sight other;

	user_chain_open(&user, 0);
	walkers_create(&walker, 1);
	few.view = TRACE_USER;
	few.size = SLOTS * sizeof(struct ptrace_bts_record);
	EXPECT_EQ(trace_attach(walker.task, &few, &tracer), 0);
	sight_open(&other, &walker, &all);
	stage_next(&walker, STAGE);
	trace_status(tracer, &status);
	EXPECT(status.full);
	EXPECT(!status.truncated);
	EXPECT_EQ(status.lost, 0);
	EXPECT_EQ(status.available, SLOTS);
	EXPECT_EQ(read_in_sequence(tracer, &user, 0), SLOTS);
	trace_resume(tracer);
	stage_last(&walker);
	EXPECT_EQ(trace_available(tracer), SLOTS);
	EXPECT_EQ(read_in_sequence(tracer, &user, STAGE), SLOTS);
	EXPECT(trace_detach(tracer));
	sight_read(&other);
	sight_expect(&other, WALKS);
	sight_close(&other);
	walker_end(&walker);
	user_chain_close(&user);
}

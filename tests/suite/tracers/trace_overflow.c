// SPDX-License-Identifier: MIT
#include "kernel/sched/sched.h"
#include "tests/framework/test.h"
#include "tests/lib/viewer.h"
#include "tests/lib/walker.h"

#define WALKS 40
#define SLOTS 50
#define MOST  500

static struct ptrace_bts_record records[MOST];

/* They are the last `count` of ring 3 that there were, oldest first. */
static size_t count_right(const struct user_chain *user, size_t count)
{
	uint64_t walk = WALKS - 1, i = chain_length(walk) - 1;
	size_t right = 0;

	while (count--) {
		struct branch due;

		if (i == 0)
			i = chain_length(--walk) - 1;
		due = user_chain_branch(user, chain_length(walk), --i);
		right += records[count].from == due.from && records[count].to == due.to;
	}
	return right;
}

/* Keeps those of ring 3 alone; how many they are. */
static size_t keep_user(size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (!(records[i].from >> 63) && !(records[i].to >> 63))
			records[kept++] = records[i];
	return kept;
}

/* By number and by reading; past the last there is none. */
static void expect_all(struct tracer *tracer, const struct user_chain *user, size_t slots,
		       bool circular)
{
	struct ptrace_bts_record newest, none;
	struct bts_status status;
	size_t kept;

	bts_status(tracer, &status);
	EXPECT_EQ(status.circular, circular);
	EXPECT(circular ? status.lost_more : status.lost > 0 && !status.lost_more);
	EXPECT_EQ(status.available, slots);
	EXPECT_EQ(bts_get(tracer, 0, &newest), 0);
	EXPECT_EQ(bts_get(tracer, slots, &none), -EINVAL);
	EXPECT_EQ(bts_read(tracer, records, slots + 1), slots);
	EXPECT_EQ(records[slots - 1].from, newest.from);
	kept = keep_user(slots);
	EXPECT(circular ? kept > 0 : kept == slots);
	EXPECT_EQ(count_right(user, kept), kept);
	EXPECT_EQ(bts_available(tracer), 0);
	EXPECT_EQ(bts_get(tracer, 0, &none), -EINVAL);
}

static void trace(struct user_chain *user, unsigned view, size_t slots, bool alone)
{
	struct walker walker = {.name = "wraps", .chain = &chain_a, .walks = WALKS, .user = user};
	struct bts_options options = viewer_options(TRACE_USER, 0), other = options;
	struct tracer *tracer = NULL, *second = NULL;
	struct ptrace_bts_record none;

	options.view = view;
	options.overflow = TRACE_WRAP;
	options.size = slots * sizeof(none);
	walkers_create(&walker, 1);
	EXPECT_EQ(bts_attach(walker.task, &options, &tracer), 0);
	EXPECT_EQ(bts_get(tracer, 0, &none), -EINVAL);
	if (!alone)
		EXPECT_EQ(bts_attach(walker.task, &other, &second), 0);
	task_start(walker.task);
	walkers_join(&walker, 1);
	expect_all(tracer, user, slots, alone && view == (TRACE_USER | TRACE_KERNEL));
	EXPECT(trace_detach(tracer));
	if (!alone)
		EXPECT(trace_detach(second));
	walker_end(&walker);
}

// All Linux drivers from 2.6.25 to 2.6.32 counted and copied only the records from the base to the
// index. After a wrap the older part of the buffer was lost to the reader. Before the first wrap
// GET gave an empty record (docs/historic-bugs.md).
// The index is where the next record goes, from the maximum back to the base (SDM Vol 3, 17.4.9):
// after a wrap the oldest record is the one at the index.
// Passing means: the newest records are all there, oldest first, whatever the index.
// On a failure with fewer records the log has "status.available" or "bts_read(...)" with how many
// there were. With wrong ones it has "count_right(user, kept)". "bts_get(...)" is an empty record
// that was given out.
TEST(trace_newest_after_wrap, .group = "tracers", .ids = "W4 I8 I9", .needs = NEED_BTS,
     .claim =
	     "after a wrap the newest records are all there, oldest first, in either shape; none else",
     .source = "docs/design.md#overflow; docs/historic-bugs.md")
{
	struct user_chain user;

	user_chain_open(&user, 0);
	trace(&user, TRACE_USER | TRACE_KERNEL, MOST - 1, true);
	trace(&user, TRACE_USER, SLOTS, true);
	trace(&user, TRACE_USER, SLOTS, false);
	trace(&user, TRACE_USER, 1, true);
	user_chain_close(&user);
}

#define STAGED_WALKS (2 * STAGE)
#define FEW	     50

static size_t read_in_sequence(struct tracer *tracer, const struct user_chain *user, uint64_t walk)
{
	struct ptrace_bts_record record;
	uint64_t i = 0;
	size_t right = 0;

	while (bts_read(tracer, &record, 1)) {
		struct branch due = user_chain_branch(user, chain_length(walk), i);

		right += record.from == due.from && record.to == due.to;
		if (++i == chain_length(walk) - 1) {
			i = 0;
			walk++;
		}
	}
	return right;
}

static uint64_t user_branches(uint64_t walks)
{
	uint64_t count = 0;

	while (walks--)
		count += chain_length(walks) - 1;
	return count;
}

TEST(trace_stop_on_full, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim =
	     "a tracer that stops when full keeps the first records, says how many it lost then, goes on "
	     "when resumed; others go on",
     .source = "docs/design.md#overflow")
{
	struct user_chain user;
	struct walker walker = stage_walker(&user, STAGED_WALKS);
	struct bts_options all = viewer_options(TRACE_USER | TRACE_KERNEL, STAGED_WALKS * 4),
			   few = all;
	struct bts_status status;
	struct tracer *tracer = NULL;
	struct viewer other;

	user_chain_open(&user, 0);
	walkers_create(&walker, 1);
	few.view = TRACE_USER;
	few.size = FEW * sizeof(struct ptrace_bts_record);
	EXPECT_EQ(bts_attach(walker.task, &few, &tracer), 0);
	viewer_open(&other, &walker, &all);
	stage_next(&walker, STAGE);
	bts_status(tracer, &status);
	EXPECT(status.full);
	EXPECT(!status.truncated);
	EXPECT(status.lost_more || status.lost == user_branches(STAGE) - FEW);
	EXPECT_EQ(status.available, FEW);
	EXPECT_EQ(read_in_sequence(tracer, &user, 0), FEW);
	trace_resume(tracer);
	stage_last(&walker);
	EXPECT_EQ(bts_available(tracer), FEW);
	EXPECT_EQ(read_in_sequence(tracer, &user, STAGE), FEW);
	EXPECT(trace_detach(tracer));
	viewer_read(&other);
	viewer_expect(&other, STAGED_WALKS);
	viewer_close(&other);
	walker_end(&walker);
	user_chain_close(&user);
}

static void yield(struct walker *walker)
{
	(void)walker;
	task_yield();
}

/* The beginning of a life, as far as `slots` slots have room for branches, stamps and a gap. */
static void stop_with_stamps(const struct user_chain *user, size_t slots)
{
	struct walker walker = {
		.name = "stamped", .chain = &chain_a, .walks = 10, .user = user, .between = yield};
	struct bts_options options = viewer_options(TRACE_USER, 0);
	struct bts_status status;
	struct tracer *tracer = NULL;
	size_t count, last[2] = {0};

	options.stamps = true;
	options.size = slots * sizeof(records[0]);
	walkers_create(&walker, 1);
	REQUIRE_EQ(bts_attach(walker.task, &options, &tracer), 0);
	task_start(walker.task);
	while (walker.walked < walker.walks / 2)
		task_yield();
	bts_status(tracer, &status);
	EXPECT(status.full);
	count = bts_read(tracer, records, slots + 1);
	REQUIRE(count == slots || count == slots - 1); /* no room for one more arrival */
	EXPECT_EQ(records[0].qualifier, PTRACE_BTS_TASK_ARRIVES);
	for (size_t i = 1; i < count; i++)
		last[records[i].qualifier == PTRACE_BTS_GAP] = i;
	EXPECT_EQ(records[last[false]].qualifier, PTRACE_BTS_TASK_DEPARTS);
	EXPECT(last[true] + 2 >= count);
	walkers_join(&walker, 1);
	EXPECT_EQ(bts_read(tracer, records, slots + 1), 1); /* it was not resumed */
	EXPECT_EQ(records[0].qualifier, PTRACE_BTS_GAP);
	EXPECT_EQ(records[0].missing, 0);
	EXPECT(trace_detach(tracer));
	walker_end(&walker);
}

TEST(trace_stop_with_stamps, .group = "tracers", .ids = "A4", .needs = NEED_BTS,
     .claim =
	     "a tracer that stops when full is so where a stamp takes the last room too, and records "
	     "nothing but a gap until it is resumed",
     .source = "docs/design.md#overflow; docs/design.md#stamps")
{
	struct user_chain user;

	user_chain_open(&user, 0);
	for (size_t slots = 4; slots < 20; slots++)
		stop_with_stamps(&user, slots);
	user_chain_close(&user);
}

#define NULL_SLOTS 200

TEST(trace_null_callback_wraps, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim = "without a function to call at its threshold a buffer wraps, and holds nothing up",
     .source = "docs/design.md#overflow")
{
	struct user_chain user;
	struct walker walker = {.name = "alone", .chain = &chain_a, .walks = WALKS, .user = &user};
	struct bts_options options = viewer_options(TRACE_USER, 0);
	struct tracer *tracer = NULL;
	struct bts_status status;
	struct branch last;

	options.overflow = TRACE_SIGNAL;
	options.overflowed = NULL;
	options.size = NULL_SLOTS * sizeof(records[0]);
	user_chain_open(&user, 0);
	walkers_create(&walker, 1);
	REQUIRE_EQ(bts_attach(walker.task, &options, &tracer), 0);
	task_start(walker.task);
	walkers_join(&walker, 1);
	EXPECT_EQ(walker.walked, WALKS);
	bts_status(tracer, &status);
	EXPECT_EQ(status.overflow, TRACE_WRAP);
	EXPECT(!status.held);
	EXPECT(status.lost > 0);
	EXPECT_EQ(bts_read(tracer, records, NULL_SLOTS + 1), NULL_SLOTS);
	last = user_chain_branch(&user, chain_length(WALKS - 1), chain_length(WALKS - 1) - 2);
	EXPECT_EQ(records[NULL_SLOTS - 1].from, last.from);
	EXPECT_EQ(records[NULL_SLOTS - 1].to, last.to);
	EXPECT(trace_detach(tracer));
	walker_end(&walker);
	user_chain_close(&user);
}

// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/lock.h"
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
	struct walker walker CLOSED_BY(walker_end) = {
		.name = "wraps", .chain = &chain_a, .walks = WALKS, .user = user};
	struct bts_options options = viewer_options(TRACE_USER, 0), other = options;
	struct tracer *tracer = NULL, *second = NULL;
	struct ptrace_bts_record none;

	options.view = view;
	options.overflow = TRACE_WRAP;
	options.size = slots * sizeof(none);
	walkers_create(&walker, 1);
	EXPECT_EQ(bts_attach(walker.task, 0, &options, &tracer), 0);
	EXPECT_EQ(bts_get(tracer, 0, &none), -EINVAL);
	if (!alone)
		EXPECT_EQ(bts_attach(walker.task, 0, &other, &second), 0);
	walker_run(&walker);
	expect_all(tracer, user, slots, alone && view == (TRACE_USER | TRACE_KERNEL));
	EXPECT(trace_detach(tracer));
	if (!alone)
		EXPECT(trace_detach(second));
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
	USER_CHAIN(user);

	trace(&user, TRACE_USER | TRACE_KERNEL, MOST - 1, true);
	trace(&user, TRACE_USER, SLOTS, true);
	trace(&user, TRACE_USER, SLOTS, false);
	trace(&user, TRACE_USER, 1, true);
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

TEST(trace_stop_on_full, .group = "tracers", .ids = "P4", .needs = NEED_BTS,
     .claim = "a tracer that stops when full keeps the first records, says how many it lost then, "
	      "goes on when resumed; others go on",
     .source = "docs/design.md#overflow")
{
	USER_CHAIN(user);
	struct walker walker = stage_walker(&user, STAGED_WALKS);
	struct bts_options all = viewer_options(TRACE_USER | TRACE_KERNEL, STAGED_WALKS * 4),
			   few = all;
	struct bts_status status;
	struct tracer *tracer = NULL;
	struct viewer other;
	uint64_t lost;

	walkers_create(&walker, 1);
	few.view = TRACE_USER;
	few.size = FEW * sizeof(struct ptrace_bts_record);
	EXPECT_EQ(bts_attach(walker.task, 0, &few, &tracer), 0);
	viewer_open(&other, &walker, &all);
	stage_next(&walker, STAGE);
	bts_status(tracer, &status);
	EXPECT(status.full);
	EXPECT(!status.truncated);
	lost = user_branches(STAGE) - FEW;
	EXPECT(status.lost_more ? status.lost <= lost : status.lost == lost);
	EXPECT_EQ(status.available, FEW);
	EXPECT_EQ(read_in_sequence(tracer, &user, 0), FEW);
	trace_resume(tracer);
	stage_last(&walker);
	EXPECT_EQ(bts_available(tracer), FEW);
	EXPECT_EQ(read_in_sequence(tracer, &user, STAGE), FEW);
	EXPECT(trace_detach(tracer));
	viewer_expect(&other, STAGED_WALKS);
	viewer_close(&other);
	walker_end(&walker);
}

static void yield(struct walker *walker)
{
	(void)walker;
	task_yield();
}

/* The beginning of a life, as far as `slots` slots have room for branches, stamps and a gap. */
static void stop_with_stamps(const struct user_chain *user, size_t slots)
{
	struct walker walker CLOSED_BY(walker_end) = {
		.name = "stamped", .chain = &chain_a, .walks = 10, .user = user, .between = yield};
	struct bts_options options = viewer_options(TRACE_USER, 0);
	struct bts_status status;
	struct tracer *tracer = NULL;
	size_t count, last[2] = {0};

	options.stamps = true;
	options.size = slots * sizeof(records[0]);
	walkers_create(&walker, 1);
	REQUIRE_EQ(bts_attach(walker.task, 0, &options, &tracer), 0);
	task_start(walker.task);
	while (walker.walked < walker.walks / 2)
		task_yield();
	bts_status(tracer, &status);
	EXPECT(status.full);
	count = bts_read(tracer, records, slots + 1);
	walkers_join(&walker, 1);
	REQUIRE(count == slots || count == slots - 1); /* no room for one more arrival */
	EXPECT_EQ(records[0].qualifier, PTRACE_BTS_TASK_ARRIVES);
	for (size_t i = 1; i < count; i++)
		last[records[i].qualifier == PTRACE_BTS_GAP] = i;
	EXPECT_EQ(records[last[false]].qualifier, PTRACE_BTS_TASK_DEPARTS);
	EXPECT(last[true] + 2 >= count);
	EXPECT_EQ(bts_read(tracer, records, slots + 1), 1); /* it was not resumed */
	EXPECT_EQ(records[0].qualifier, PTRACE_BTS_GAP);
	EXPECT_EQ(records[0].missing, 0);
	EXPECT(trace_detach(tracer));
}

TEST(trace_stop_with_stamps, .group = "tracers", .ids = "A4", .needs = NEED_BTS,
     .claim = "a tracer that stops when full is so where a stamp takes the last room too, and "
	      "records nothing but a gap until it is resumed",
     .source = "docs/design.md#overflow; docs/design.md#stamps")
{
	USER_CHAIN(user);

	for (size_t slots = 4; slots < 20; slots++)
		stop_with_stamps(&user, slots);
}

#define NULL_SLOTS 200

TEST(trace_null_callback_wraps, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim = "without a function to call at its threshold a buffer wraps, and holds nothing up",
     .source = "docs/design.md#overflow")
{
	USER_CHAIN(user);
	struct walker walker CLOSED_BY(walker_end) = {
		.name = "alone", .chain = &chain_a, .walks = WALKS, .user = &user};
	struct bts_options options = viewer_options(TRACE_USER, 0);
	struct tracer *tracer = NULL;
	struct bts_status status;
	struct branch last;

	options.overflow = TRACE_SIGNAL;
	options.overflowed = NULL;
	options.size = NULL_SLOTS * sizeof(records[0]);
	walkers_create(&walker, 1);
	REQUIRE_EQ(bts_attach(walker.task, 0, &options, &tracer), 0);
	walker_run(&walker);
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
}

// A short ring that is read now and then, beside a long one that has everything.

#define GAP_WALKS 120
#define GAP_SLOTS                                                                                  \
	40 /* less than two walks: a reader that a slice lets run early finds a gap as well        \
	    */
#define GAP_MOST 60000
#define AREA	 (GAP_MOST * sizeof(struct ptrace_bts_record) / 4096 + 1)

static struct ptrace_bts_record *all, *read;

/* At some points the test reads. */
static void yield_often(struct walker *walker)
{
	if (walker->walked % 12 < 2)
		task_yield();
}

static struct bts_options options_of(unsigned view, enum trace_overflow overflow, size_t most)
{
	struct bts_options options = walker_options(most);

	options.view = view;
	options.overflow = overflow;
	options.stamps = true;
	return options;
}

static bool same(const struct ptrace_bts_record *a, const struct ptrace_bts_record *b)
{
	bool stamp = a->qualifier != PTRACE_BTS_BRANCH; /* taken a moment apart */

	return a->qualifier == b->qualifier && a->to == b->to && (stamp || a->from == b->from);
}

/* After each gap the two agree again, with as many records between as it says. How many were read.
 */
static size_t compare(size_t count, size_t available)
{
	uint64_t at, missing = 0;
	size_t right = 0, gaps = 0;

	for (size_t i = 0; i < count; i++)
		if (read[i].qualifier == PTRACE_BTS_GAP) {
			EXPECT(read[i].missing > 0);
			missing += read[i].missing;
			gaps++;
		}
	at = available - missing - (count - gaps);
	EXPECT_EQ(at, 0); /* nor is anything missing before the first that was read */
	for (size_t i = 0; i < count; i++)
		if (read[i].qualifier == PTRACE_BTS_GAP)
			at += read[i].missing;
		else
			right += at < available && same(&read[i], &all[at++]);
	EXPECT(gaps > 3);
	EXPECT_EQ(right, count - gaps);
	return count - gaps;
}

static size_t read_more(struct tracer *tracer, uint64_t *position, bool peek,
			struct ptrace_bts_record *to, size_t most)
{
	return peek ? bts_peek(tracer, position, to, most) : bts_read(tracer, to, most);
}

static void exact(struct user_chain *user, unsigned view, bool peek)
{
	struct walker walker CLOSED_BY(walker_end) = {.name = "gaps",
						      .chain = &chain_a,
						      .walks = GAP_WALKS,
						      .user = user,
						      .between = yield_often};
	struct bts_options long_one = options_of(view, TRACE_STOP, GAP_MOST);
	struct bts_options short_one = options_of(view, TRACE_WRAP, GAP_SLOTS);
	struct tracer *whole = NULL, *few = NULL;
	struct bts_status status;
	uint64_t position = 0;
	size_t count = 0, more;

	walkers_create(&walker, 1);
	REQUIRE_EQ(bts_attach(walker.task, 0, &long_one, &whole), 0);
	REQUIRE_EQ(bts_attach(walker.task, 0, &short_one, &few), 0);
	task_start(walker.task);
	do {
		bool last = walker.task->ended;

		more = read_more(few, &position, peek, read + count, GAP_MOST - count);
		count += more;
		if (last)
			break;
		task_yield();
	} while (count < GAP_MOST);
	bts_status(few, &status);
	EXPECT(!status.lost_more);
	EXPECT(!status.truncated);
	more = bts_read(whole, all, GAP_MOST);
	EXPECT(more < GAP_MOST);
	EXPECT_EQ(status.available, peek ? GAP_SLOTS + 1 : 0); /* the gap before them */
	count = compare(count, more);
	EXPECT_EQ(status.lost, more - (peek ? GAP_SLOTS : count));
	EXPECT(trace_detach(whole));
	EXPECT(trace_detach(few));
}

/* Ring 3's branches follow each other, but where a gap is. How many: [true] of known number. */
static uint64_t follow(const struct user_chain *user, size_t count, uint64_t gaps[2])
{
	const struct chain *chain = &user->chain;
	const struct ptrace_bts_record *last = NULL;
	uint64_t jumps = 0;

	for (size_t i = 0; i < count; i++) {
		const struct ptrace_bts_record *at = &read[i];

		if (at->qualifier == PTRACE_BTS_GAP) {
			gaps[at->missing > 0]++;
			last = NULL;
		}
		if (at->qualifier != PTRACE_BTS_BRANCH || at->from < (uint64_t)chain->start ||
		    at->from >= (uint64_t)chain->end || at->to >> 63)
			continue;
		if (last && last->from != (uint64_t)chain->exit_jump)
			jumps += at->from != last->to && last->to != (uint64_t)chain->last;
		last = at;
	}
	return jumps;
}

/* In the circular shape nobody can know how many; of a trace that stopped, the first of them. */
static void unknown(struct user_chain *user, unsigned view, enum trace_overflow overflow)
{
	struct walker walker CLOSED_BY(walker_end) = {.name = "gaps",
						      .chain = &chain_a,
						      .walks = GAP_WALKS,
						      .user = user,
						      .between = yield_often};
	struct bts_options options = options_of(view, overflow, GAP_SLOTS);
	struct tracer *tracer = NULL;
	struct bts_status status;
	uint64_t gaps[2] = {0};
	size_t count = 0;

	walkers_create(&walker, 1);
	REQUIRE_EQ(bts_attach(walker.task, 0, &options, &tracer), 0);
	task_start(walker.task);
	while (!walker.task->ended) {
		count += bts_read(tracer, read + count, GAP_MOST - count);
		trace_resume(tracer);
		task_yield();
	}
	walkers_join(&walker, 1);
	bts_status(tracer, &status);
	EXPECT_EQ(status.circular, overflow == TRACE_WRAP);
	EXPECT(status.lost_more || (overflow == TRACE_STOP && status.lost));
	EXPECT(count > GAP_SLOTS && count < GAP_MOST);
	EXPECT_EQ(follow(user, count, gaps), 0);
	EXPECT(gaps[false] + (overflow == TRACE_STOP ? gaps[true] : 0) > 3);
	EXPECT(trace_detach(tracer));
}

static void unknown_circular(struct user_chain *user)
{
	unknown(user, TRACE_USER | TRACE_KERNEL, TRACE_WRAP);
}

static void unknown_stopped(struct user_chain *user)
{
	unknown(user, TRACE_USER, TRACE_STOP);
}

#define ROOM 8

/*
 * More branches than a staging has room for, while it cannot be emptied: it ends early for that
 * time. What hardware does at the end is not said, but what follows is whole.
 */
static void overflow_staging(struct walker *walker)
{
	void *area = staging_area();
	uint64_t flags = interrupts_save(), maximum = ds_get(area, DS_BTS_ABSOLUTE_MAXIMUM);

	if (walker->walked == GAP_WALKS / 2) {
		bts_available(walker->tracer);
		ds_set(area, DS_BTS_ABSOLUTE_MAXIMUM,
		       ds_get(area, DS_BTS_INDEX) + ROOM * ds_configuration->record_size);
		chain_walk(&chain_b, 20 * ROOM);
		bts_available(walker->tracer);
		ds_set(area, DS_BTS_ABSOLUTE_MAXIMUM, maximum);
		bts_available(walker->tracer);
	}
	interrupts_restore(flags);
}

static void truncated(struct user_chain *user)
{
	struct walker walker CLOSED_BY(walker_end) = {.name = "gaps",
						      .chain = &chain_a,
						      .walks = GAP_WALKS,
						      .user = user,
						      .between = overflow_staging};
	struct bts_options options = options_of(TRACE_USER | TRACE_KERNEL, TRACE_STOP, GAP_MOST);
	struct bts_status status;
	struct viewer viewer CLOSED_BY(viewer_close);
	size_t count, gap = GAP_MOST;

	walkers_create(&walker, 1);
	viewer_open(&viewer, &walker, &options);
	walker.tracer = viewer.tracer;
	walker_run(&walker);
	bts_status(viewer.tracer, &status);
	EXPECT(status.truncated);
	count = bts_read(viewer.tracer, read, GAP_MOST);
	for (size_t i = 0; i < count; i++) {
		if (read[i].qualifier == PTRACE_BTS_GAP) {
			EXPECT_EQ(gap, GAP_MOST);
			EXPECT_EQ(read[i].missing, 0);
			EXPECT_EQ(viewer.user.walk, GAP_WALKS / 2);
			gap = i;
		}
		viewer_feed(&viewer, &read[i]);
	}
	EXPECT(gap < GAP_MOST);
	chain_expect_walks(&viewer.user, GAP_WALKS, "ring 3");
	chain_expect_walks(&viewer.kernel, GAP_WALKS, "kernel");
	walker.tracer = NULL;
}

static void with_memory(void (*test)(struct user_chain *user))
{
	USER_CHAIN(user);

	all = test_area(AREA);
	read = test_area(AREA);
	test(&user);
}

static void exact_all(struct user_chain *user)
{
	exact(user, TRACE_USER, false);
	exact(user, TRACE_USER, true);
	exact(user, TRACE_USER | TRACE_KERNEL, false);
}

TEST(trace_gaps_are_counted, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim = "where a ring has overwritten what was not read yet, a record says how much that is",
     .source = "docs/design.md#losses")
{
	with_memory(exact_all);
}

TEST(trace_gaps_of_unknown_number, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim = "where the hardware went round a ring that was read before, a record says that "
	      "branches are missing",
     .source = "docs/design.md#losses")
{
	with_memory(unknown_circular);
}

TEST(trace_gaps_of_stop, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim = "where a trace that stopped when it was full goes on, a record says that branches "
	      "are missing",
     .source = "docs/design.md#losses")
{
	with_memory(unknown_stopped);
}

TEST(trace_gaps_of_hardware, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim = "where the hardware ran out of room a record says so; what follows is whole",
     .source = "docs/design.md#losses")
{
	with_memory(truncated);
}

/* --- Before the first, and after the last --- */

static void ignore(struct tracer *tracer, void *argument)
{
	(void)tracer, (void)argument;
}

static size_t read_at_end(struct walker *walker, struct tracer *tracer, struct bts_status *status)
{
	size_t count;

	walkers_join(walker, 1);
	bts_status(tracer, status);
	EXPECT(!status->lost_more && !status->truncated);
	count = bts_read(tracer, read, GAP_MOST);
	EXPECT(trace_detach(tracer));
	walker_end(walker);
	return count;
}

static void before_first(struct user_chain *user)
{
	struct walker walker = {.name = "gaps",
				.chain = &chain_a,
				.walks = GAP_WALKS,
				.user = user,
				.between = yield_often};
	struct bts_options options = options_of(TRACE_USER, TRACE_WRAP, GAP_SLOTS);
	struct tracer *tracer = NULL;
	struct bts_status status;
	size_t count;

	walkers_create(&walker, 1);
	REQUIRE_EQ(bts_attach(walker.task, 0, &options, &tracer), 0);
	task_start(walker.task);
	count = read_at_end(&walker, tracer, &status);
	EXPECT_EQ(count, GAP_SLOTS + 1);
	EXPECT_EQ(status.available, GAP_SLOTS + 1);
	EXPECT(status.lost > 0);
	EXPECT_EQ(read[0].qualifier, PTRACE_BTS_GAP);
	EXPECT_EQ(read[0].missing, status.lost);
}

TEST(trace_gap_before_the_first, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim =
	     "where a ring wrapped before it was ever read, a record says first how much is missing",
     .source = "docs/design.md#losses")
{
	with_memory(before_first);
}

static void always_yield(struct walker *walker)
{
	(void)walker;
	task_yield();
}

/* Its owner resumes a full trace and reads nothing; there is no record after the last loss. */
TEST(trace_gap_after_the_last, .group = "tracers", .ids = "C4", .needs = NEED_BTS,
     .claim = "where a trace that signals is full, its last record says how much is missing",
     .source = "docs/design.md#losses")
{
	struct walker walker = {
		.name = "gaps", .chain = &chain_a, .walks = 400, .between = always_yield};
	struct bts_options options = options_of(TRACE_KERNEL, TRACE_SIGNAL, GAP_SLOTS);
	struct tracer *tracer = NULL;
	struct bts_status status;
	uint64_t gaps = 0, missing = 0;
	size_t count, last;

	read = test_area(AREA);
	options.overflowed = ignore;
	walkers_create(&walker, 1);
	REQUIRE_EQ(bts_attach(walker.task, 0, &options, &tracer), 0);
	task_start(walker.task);
	while (!walker.task->ended) {
		trace_resume(tracer);
		task_yield();
	}
	count = last = read_at_end(&walker, tracer, &status);
	EXPECT(status.lost > 0);
	for (size_t i = 0; i < count; i++) {
		gaps += read[i].qualifier == PTRACE_BTS_GAP;
		missing += read[i].qualifier == PTRACE_BTS_GAP ? read[i].missing : 0;
	}
	while (last && read[last - 1].qualifier == PTRACE_BTS_TASK_DEPARTS)
		last--;
	REQUIRE(last > 0);
	EXPECT_EQ(read[last - 1].qualifier, PTRACE_BTS_GAP);
	EXPECT_EQ(gaps, 1);
	EXPECT_EQ(missing, status.lost);
}

/* --- A staging that is nearly full --- */

/* Records the same few branches into a staging that ends after `room` records. */
static struct bts_status record_into(struct tracer *tracer, size_t room)
{
	void *area = staging_area();
	uint64_t flags = interrupts_save(), maximum = ds_get(area, DS_BTS_ABSOLUTE_MAXIMUM);
	size_t record = ds_configuration->record_size;
	struct bts_status status;

	ds_set(area, DS_BTS_ABSOLUTE_MAXIMUM, maximum - (staging_records() - room) * record);
	trace_clear(tracer); /* an empty staging, by the new maximum */
	chain_walk(&chain_b, 20);
	bts_status(tracer, &status);
	ds_set(area, DS_BTS_ABSOLUTE_MAXIMUM, maximum);
	interrupts_restore(flags);
	return status;
}

TEST(trace_nearly_full_loses_nothing, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim = "hardware that has room for one record more has lost none, and the status says so",
     .source = "docs/design.md#losses")
{
	struct bts_options options = options_of(TRACE_USER | TRACE_KERNEL, TRACE_STOP, GAP_MOST);
	struct tracer *tracer = NULL;
	struct bts_status enough, too_few;
	size_t all_records, again, half = staging_records() / 2;
	unsigned tries = 0;

	test_pin();
	options.stamps = false;
	REQUIRE_EQ(bts_attach(current_task(), 0, &options, &tracer), 0);
	do { /* another CPU that holds a lock of the scheduler adds the branches of a wait */
		REQUIRE(tries++ < 20);
		all_records = record_into(tracer, half).available;
		REQUIRE(all_records > 20 && all_records < half);
		enough = record_into(tracer, all_records + 1);
		too_few = record_into(tracer, all_records - 1);
		again = record_into(tracer, half).available;
	} while (all_records != again || enough.available > all_records);
	EXPECT_EQ(enough.available, all_records);
	EXPECT(!enough.truncated && !enough.lost && !enough.lost_more);
	EXPECT(too_few.truncated);
	EXPECT(trace_detach(tracer));
}

// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/mm/vm.h"
#include "kernel/trace/context.h"
#include "tests/framework/pages.h"
#include "tests/framework/test.h"
#include "tests/lib/viewer.h"
#include "tests/lib/walker.h"

#define WALKS 30

TEST(trace_three_views, .group = "tracers", .ids = "S3", .needs = NEED_BTS,
     .claim =
	     "a tracer that wraps, one that is notified, and one of the CPU see each its own view of one task",
     .source = "docs/design.md#tracers; docs/design.md#views")
{
	USER_CHAIN(user);
	struct walker walker CLOSED_BY(walker_end) = {.name = "watched",
						      .chain = &chain_a,
						      .walks = WALKS,
						      .user = &user,
						      .between = held_wait};
	struct bts_options options = viewer_options(TRACE_KERNEL, WALKS * 16);
	struct bts_status status;
	struct viewer wrapping, all;
	struct held held;

	walkers_create(&walker, 1);
	options.overflow = TRACE_WRAP;
	viewer_open(&wrapping, &walker, &options);
	options = viewer_options(TRACE_USER, 0);
	options.size = 300 * sizeof(struct ptrace_bts_record);
	held_open(&held, &walker, &user, options);
	options = viewer_options(TRACE_USER, WALKS * 4);
	options.stamps = true;
	viewer_open_cpu(&all, &walker, this_cpu()->index, &options);
	task_start(walker.task);
	held_join(&held, &walker);
	held_close(&held, WALKS);
	viewer_expect(&wrapping, WALKS);
	held_expect_waits(&held, &wrapping);
	viewer_expect(&all, WALKS);
	EXPECT(all.stamps > WALKS);
	bts_status(all.tracer, &status);
	EXPECT(!status.circular);
	viewer_close(&wrapping);
	viewer_close(&all);
}

#define READ_WALKS 100
#define READ_MOST  (16 * 4096 / sizeof(struct ptrace_bts_record))

/* The records of a tracer of this CPU after `most` of those of `other` were read; IF = 0. */
static uint64_t recorded_by_reading(struct tracer *other, struct ptrace_bts_record *records,
				    size_t most)
{
	struct bts_options newest = walker_options(64);
	uint64_t flags = interrupts_save();
	struct bts_status status;
	struct tracer *cpu = NULL;

	newest.overflow = TRACE_WRAP;
	REQUIRE_EQ(bts_attach(NULL, this_cpu()->index, &newest, &cpu), 0);
	EXPECT_EQ(bts_peek(other, &(uint64_t){0}, records, most), most);
	bts_status(cpu, &status);
	interrupts_restore(flags);
	EXPECT(!status.truncated && !status.lost_more);
	EXPECT(trace_detach(cpu));
	return status.lost + status.available;
}

TEST(trace_reading_unseen, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim =
	     "a CPU's tracer that sees the kernel loses nothing to the reading of others' long traces",
     .source = "docs/design.md#losses")
{
	USER_CHAIN(user);
	struct walker walker CLOSED_BY(walker_end) = {
		.name = "read", .chain = &chain_a, .walks = READ_WALKS, .user = &user};
	struct bts_options options = viewer_options(TRACE_USER | TRACE_KERNEL, READ_WALKS);
	struct ptrace_bts_record *records = test_area(16);
	struct viewer viewer CLOSED_BY(viewer_close);
	uint64_t of_one, of_most;

	walkers_create(&walker, 1);
	viewer_open(&viewer, &walker, &options);
	walker_run(&walker);
	of_one = recorded_by_reading(viewer.tracer, records, 1);
	of_most = recorded_by_reading(viewer.tracer, records, READ_MOST);
	EXPECT(of_one > 0);
	EXPECT(of_most < of_one + 50); /* an NMI between */
	test_note("%lu of one, %lu of %zu", of_one, of_most, READ_MOST);
	viewer_expect(&viewer, READ_WALKS);
}

#define CHANGE_WALKS (3 * STAGE)

static void refuse(struct tracer *tracer, const struct bts_options *options, int expected)
{
	struct bts_status before, after;

	bts_status(tracer, &before);
	EXPECT_EQ(bts_change(tracer, options), expected);
	bts_status(tracer, &after);
	EXPECT_EQ(after.view, before.view);
	EXPECT_EQ(after.overflow, before.overflow);
	EXPECT_EQ(after.available, before.available);
	EXPECT_EQ(after.size, before.size);
	EXPECT(!after.full && !after.held && !after.lost);
}

static void refuse_all(struct tracer *tracer, struct bts_options options)
{
	options.view = 4;
	refuse(tracer, &options, -EINVAL);
	options.view = TRACE_KERNEL;
	options.privileged = false;
	refuse(tracer, &options, -EPERM);
	options.privileged = true;
	options.overflow = TRACE_STOP + 1;
	refuse(tracer, &options, -EINVAL);
	options.overflow = TRACE_STOP;
	options.threshold = SIZE_MAX;
	refuse(tracer, &options, -EINVAL);
}

/* Ring 3, then nothing, then the kernel; a change that is refused changes nothing. */
TEST(trace_changes, .group = "tracers", .ids = "I4", .needs = NEED_BTS,
     .claim = "a tracer changes its view, pauses and goes on while attached, and sees just that",
     .source = "kernel/trace/trace.h")
{
	USER_CHAIN(user);
	struct walker walker = stage_walker(&user, CHANGE_WALKS);
	struct bts_options options = viewer_options(TRACE_USER | TRACE_KERNEL, CHANGE_WALKS * 4);
	struct viewer viewer;

	options.view = TRACE_USER;
	walkers_create(&walker, 1);
	viewer_open(&viewer, &walker, &options);
	stage_next(&walker, STAGE);
	viewer_expect(&viewer, STAGE);
	options.paused = true;
	EXPECT_EQ(bts_change(viewer.tracer, &options), 0);
	stage_next(&walker, 2 * STAGE);
	EXPECT_EQ(bts_available(viewer.tracer), 0);
	refuse_all(viewer.tracer, options);
	options.paused = false;
	options.view = viewer.view = TRACE_KERNEL;
	EXPECT_EQ(bts_change(viewer.tracer, &options), 0);
	viewer.kernel.walk = 2 * STAGE;
	viewer.user = (struct chain_reader){.chain = &user.chain};
	viewer.exits = viewer.in_user = 0;
	stage_last(&walker);
	viewer_expect(&viewer, CHANGE_WALKS);
	viewer_close(&viewer);
	walker_end(&walker);
}

static void finish(struct viewer *viewer, uint64_t walks)
{
	viewer_expect(viewer, walks);
	trace_clear(viewer->tracer); /* which concerns no other */
	viewer_close(viewer);
}

TEST(trace_comes_and_goes, .group = "tracers", .ids = "S3 I11", .needs = NEED_BTS,
     .claim =
	     "the first tracer of a task leaves and another joins in the middle: the others lose nothing",
     .source = "docs/design.md#tracers")
{
	USER_CHAIN(user);
	struct walker walker = stage_walker(&user, CHANGE_WALKS);
	struct bts_options options = viewer_options(TRACE_KERNEL, CHANGE_WALKS * 2);
	struct bts_options in_user = viewer_options(TRACE_USER, CHANGE_WALKS);
	struct viewer first, second, third, all;

	walkers_create(&walker, 1);
	viewer_open(&first, &walker, &options);
	viewer_open(&second, &walker, &options);
	viewer_open_cpu(&all, &walker, this_cpu()->index, &in_user);
	stage_next(&walker, STAGE);
	finish(&first, STAGE);
	stage_next(&walker, 2 * STAGE);
	viewer_open(&third, &walker, &in_user);
	third.user.walk = third.exits = 2 * STAGE;
	stage_last(&walker);
	EXPECT_EQ(third.in_user, 0);
	third.in_user = 2 * STAGE; /* as many exits as it did not see */
	finish(&second, CHANGE_WALKS);
	finish(&third, CHANGE_WALKS);
	finish(&all, CHANGE_WALKS);
	walker_end(&walker);
}

#define SHAPE_WALKS (5 * STAGE)

/* The shape of what was recorded since the stage before. */
static void expect_circular(const struct viewer *viewer, bool expected)
{
	struct bts_status status;

	bts_status(viewer->tracer, &status);
	EXPECT_EQ(status.circular, expected);
}

TEST(trace_shape_changes, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim =
	     "a trace whose shape goes from circular to linear and back, twice, loses nothing and keeps its order",
     .source = "docs/design.md#shapes")
{
	USER_CHAIN(user);
	struct walker walker = stage_walker(&user, SHAPE_WALKS);
	struct bts_options options = viewer_options(TRACE_USER | TRACE_KERNEL, SHAPE_WALKS * 4);
	struct viewer first, second;

	options.overflow = TRACE_WRAP;
	walkers_create(&walker, 1);
	viewer_open(&first, &walker, &options);
	stage_next(&walker, STAGE);
	expect_circular(&first, true);
	viewer_open(&second, &walker, &options);
	stage_next(&walker, 2 * STAGE);
	expect_circular(&first, false);
	viewer_close(&second);
	stage_next(&walker, 3 * STAGE);
	expect_circular(&first, true);
	viewer_open_cpu(&second, &walker, this_cpu()->index, &options);
	stage_next(&walker, 4 * STAGE);
	expect_circular(&first, false);
	viewer_close(&second);
	stage_last(&walker);
	expect_circular(&first, true);
	viewer_expect(&first, SHAPE_WALKS);
	viewer_close(&first);
	walker_end(&walker);
}

#define RECORD sizeof(struct ptrace_bts_record)

static struct trace_account account;
static struct walker walker;

static void refused(int error, int expected, uint64_t before, const struct tracer *result)
{
	EXPECT_EQ(error, expected);
	EXPECT(!result);
	EXPECT_EQ(account.used, 0);
	EXPECT_EQ(pages_left(), before);
}

/* Of its task, and of a CPU: nothing stays allocated or attached. */
static void expect_refused(struct bts_options options, int expected)
{
	struct tracer *result = NULL;
	uint64_t before = pages_left();

	options.account = &account;
	refused(bts_attach(walker.task, 0, &options, &result), expected, before, result);
	EXPECT(!walker.task->trace);
	refused(bts_attach(NULL, this_cpu()->index, &options, &result), expected, before, result);
	EXPECT(!this_cpu()->trace->context.tracers[TRACE_BTS]);
}

static void refuse_values(void)
{
	struct bts_options options = walker_options(64);

	options.view = 4;
	expect_refused(options, -EINVAL);
	options = walker_options(0);
	expect_refused(options, -EINVAL);
	options.size = UINT64_MAX;
	expect_refused(options, -EINVAL);
	options = walker_options(64);
	options.threshold = 65;
	expect_refused(options, -EINVAL);
	options = walker_options(64);
	options.overflow = TRACE_STOP + 1;
	expect_refused(options, -EINVAL);
	options = walker_options(64);
	options.privileged = false;
	expect_refused(options, -EPERM);
}

static void refuse_memory(void)
{
	account.limit = 64 * RECORD;
	expect_refused(walker_options(64), -ENOMEM);
}

/* Pages of a tracer of 1024 records: itself, its buffer, the DS area. */
#define PAGES (1 + 1024 * 24 / PAGE_SIZE + 1 + 1)

/* It fails at each page that it takes. */
static void refuse_what_is_not_there(void)
{
	struct bts_options options = walker_options(1024);
	struct tracer *result = NULL;
	uint64_t before = pages_left();

	account.limit = SIZE_MAX;
	options.account = &account;
	for (uint64_t left = 0; left < PAGES; left++) {
		page_keep_back(page_free_count() - left);
		refused(bts_attach(walker.task, 0, &options, &result), -ENOMEM, before, result);
	}
	page_keep_back(0);
}

TEST(trace_refusals, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim = "a tracer that is refused leaves everything as it was, with the error that says why",
     .source = "kernel/trace/trace.h")
{
	struct bts_options options = walker_options(64);
	struct tracer *result = NULL;
	uint64_t before;

	walker = (struct walker){.name = "task", .chain = &chain_a, .walks = 1};
	account = (struct trace_account){.limit = SIZE_MAX};
	walkers_create(&walker, 1);
	refuse_values();
	refuse_memory();
	refuse_what_is_not_there();
	before = pages_left();
	options.account = &account;
	account.limit = SIZE_MAX;
	refused(bts_attach(NULL, cpu_count(), &options, &result), -EINVAL, before, result);
	walker_run(&walker);
	before = pages_left();
	refused(bts_attach(walker.task, 0, &options, &result), -ESRCH, before, result);
	walker_end(&walker);
}

TEST(trace_refused_without_bts, .group = "tracers", .ids = "E2", .needs = NEED_NO_DS,
     .claim = "where there is no Debug Store no tracer of a task or a CPU is to be had: -ENODEV",
     .source = "kernel/trace/trace.h")
{
	const struct bts_options options = walker_options(64);
	struct tracer *tracer = NULL;

	EXPECT_EQ(bts_attach(current_task(), 0, &options, &tracer), -ENODEV);
	EXPECT_EQ(bts_attach(NULL, 0, &options, &tracer), -ENODEV);
	EXPECT(!tracer && !current_task()->trace);
}

// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "tests/framework/test.h"
#include "tests/lib/held.h"
#include "tests/lib/viewer.h"

#define WALKS 30

TEST(trace_three_views, .group = "tracers", .ids = "S3", .needs = NEED_BTS,
     .claim =
	     "a tracer that wraps, one that is told, and one of the CPU see each its own view of one task",
     .source = "docs/design.md#tracers; docs/design.md#views")
{
	struct user_chain user;
	struct walker walker = {.name = "watched",
				.chain = &chain_a,
				.walks = WALKS,
				.user = &user,
				.between = held_wait};
	struct trace_options options = viewer_options(TRACE_KERNEL, WALKS * 16);
	struct trace_status status;
	struct viewer wrapping, all;
	struct held held;

	user_chain_open(&user, 0);
	walkers_create(&walker, 1);
	options.overflow = TRACE_WRAP;
	viewer_open(&wrapping, &walker, &options);
	options = viewer_options(TRACE_USER, 0);
	options.size = 300 * sizeof(struct ptrace_bts_record);
	held_open(&held, &walker, &user, options);
	options = viewer_options(TRACE_USER, WALKS);
	viewer_open_cpu(&all, &walker, this_cpu()->index, &options);
	task_start(walker.task);
	held_join(&held, &walker);
	held_close(&held, WALKS);
	viewer_read(&wrapping);
	viewer_expect(&wrapping, WALKS);
	held_expect_waits(&held, &wrapping);
	viewer_read(&all);
	viewer_expect(&all, WALKS);
	trace_status(all.tracer, &status);
	EXPECT(!status.circular);
	viewer_close(&wrapping);
	viewer_close(&all);
	walker_end(&walker);
	user_chain_close(&user);
}

#define READ_WALKS 100

TEST(trace_reading_unseen, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim =
	     "a CPU's tracer that sees the kernel loses nothing to the reading of others' long traces",
     .source = "docs/design.md#losses")
{
	struct user_chain user;
	struct walker walker = {
		.name = "read", .chain = &chain_a, .walks = READ_WALKS, .user = &user};
	struct trace_options options = viewer_options(TRACE_USER | TRACE_KERNEL, READ_WALKS);
	struct trace_options newest = walker_options(64);
	struct ptrace_bts_record *records = test_area(16);
	struct trace_status status;
	struct tracer *cpu = NULL;
	struct viewer viewer;
	size_t count;

	user_chain_open(&user, 0);
	walkers_create(&walker, 1);
	viewer_open(&viewer, &walker, &options);
	task_start(walker.task);
	walkers_join(&walker, 1);
	newest.overflow = TRACE_WRAP;
	EXPECT_EQ(trace_attach_cpu(this_cpu()->index, &newest, &cpu), 0);
	count = trace_peek(viewer.tracer, &(uint64_t){0}, records, 16 * 4096 / sizeof(*records));
	EXPECT(count > 2000);
	trace_status(cpu, &status);
	EXPECT(!status.truncated);
	EXPECT(status.lost < count);
	EXPECT(trace_detach(cpu));
	viewer_read(&viewer);
	viewer_expect(&viewer, READ_WALKS);
	viewer_close(&viewer);
	walker_end(&walker);
	user_chain_close(&user);
}

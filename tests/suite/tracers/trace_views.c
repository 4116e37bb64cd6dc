// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "tests/framework/test.h"
#include "tests/lib/viewer.h"

#define WALKS 30

TEST(trace_three_views, .group = "tracers", .ids = "S3", .needs = NEED_BTS,
     .claim =
	     "a tracer that wraps, one that is notified, and one of the CPU see each its own view of one task",
     .source = "docs/design.md#tracers; docs/design.md#views")
{
	struct user_chain user;
	struct walker walker = {.name = "watched",
				.chain = &chain_a,
				.walks = WALKS,
				.user = &user,
				.between = held_wait};
	struct bts_options options = viewer_options(TRACE_KERNEL, WALKS * 16);
	struct bts_status status;
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
	bts_status(all.tracer, &status);
	EXPECT(!status.circular);
	viewer_close(&wrapping);
	viewer_close(&all);
	walker_end(&walker);
	user_chain_close(&user);
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
	REQUIRE_EQ(bts_attach_cpu(this_cpu()->index, &newest, &cpu), 0);
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
	struct user_chain user;
	struct walker walker = {
		.name = "read", .chain = &chain_a, .walks = READ_WALKS, .user = &user};
	struct bts_options options = viewer_options(TRACE_USER | TRACE_KERNEL, READ_WALKS);
	struct ptrace_bts_record *records = test_area(16);
	struct viewer viewer;
	uint64_t of_one, of_most;

	user_chain_open(&user, 0);
	walkers_create(&walker, 1);
	viewer_open(&viewer, &walker, &options);
	task_start(walker.task);
	walkers_join(&walker, 1);
	of_one = recorded_by_reading(viewer.tracer, records, 1);
	of_most = recorded_by_reading(viewer.tracer, records, READ_MOST);
	EXPECT(of_one > 0);
	EXPECT(of_most < of_one + 50); /* an NMI between */
	test_note("%lu of one, %lu of %zu", of_one, of_most, READ_MOST);
	viewer_read(&viewer);
	viewer_expect(&viewer, READ_WALKS);
	viewer_close(&viewer);
	walker_end(&walker);
	user_chain_close(&user);
}

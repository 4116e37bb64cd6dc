// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#define NAP	10000 /* microseconds */
#define RECORDS 1024
#define WALKS	20
#define BLOCKS	4 /* after so many walks, each time */
#define PAGES	(RECORDS * sizeof(struct ptrace_bts_record) / 4096)

static struct run_queue queue;
static struct spinlock guard;
static bool go_on;

static void block(struct walker *walker)
{
	uint64_t flags;

	if (walker->walked % BLOCKS)
		return;
	flags = spin_lock(&guard);
	while (!go_on)
		sched_wait(&queue, &guard);
	go_on = false;
	spin_unlock(&guard, flags);
}

static void unblock(void)
{
	uint64_t flags = spin_lock(&guard);

	go_on = true;
	sched_wake_all(&queue);
	spin_unlock(&guard, flags);
}

static size_t equal_records(const struct ptrace_bts_record *a, const struct ptrace_bts_record *b,
			    size_t count)
{
	size_t equal = 0;

	while (equal < count && a[equal].from == b[equal].from && a[equal].to == b[equal].to)
		equal++;
	return equal;
}

/* The newest walk is in the buffer, whole. */
static void check_newest(const struct walker *walker, const struct ptrace_bts_record *records,
			 size_t count)
{
	struct chain_reader reader = {.chain = walker->chain, .walk = walker->walked - 1};
	struct branch first = chain_branch(walker->chain, chain_length(reader.walk), 1);
	size_t start = count;

	while (start > 0 &&
	       (records[start - 1].from != first.from || records[start - 1].to != first.to))
		start--;
	EXPECT(start > 0);
	for (size_t i = start ? start - 1 : 0; i < count; i++)
		chain_feed(&reader, &(struct bts_struct){.qualifier = BTS_BRANCH,
							 .from = records[i].from,
							 .to = records[i].to});
	EXPECT_EQ(reader.wrong, 0);
	EXPECT_EQ(reader.walk, walker->walked);
}

TEST(bts_switch_blocked_stable, .group = "C", .ids = "C6", .needs = NEED_BTS,
     .claim = "the buffer of a blocked task reads the same twice, whatever runs in between",
     .source = "docs/design.md#tracers")
{
	struct walker walker = {.name = "blocked",
				.chain = &chain_a,
				.walks = WALKS,
				.options = walker_options(RECORDS),
				.between = block};
	struct ptrace_bts_record *once = test_area(PAGES), *twice = test_area(PAGES);

	walker.options.overflow = TRACE_WRAP;
	walkers_start(&walker, 1);
	for (unsigned turn = 0; turn < WALKS / BLOCKS; turn++) {
		size_t count;

		while (walker.task->state != TASK_BLOCKED)
			task_yield();
		count = trace_peek(walker.tracer, &(uint64_t){0}, once, RECORDS);
		EXPECT(count > 0);
		chain_walk(&chain_b, 200);
		EXPECT_EQ(trace_peek(walker.tracer, &(uint64_t){0}, twice, RECORDS), count);
		EXPECT_EQ(equal_records(once, twice, count), count);
		check_newest(&walker, once, count);
		unblock();
	}
	walkers_join(&walker, 1);
	walker_end(&walker);
}

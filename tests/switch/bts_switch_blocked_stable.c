// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#define NAP	10000 /* microseconds */
#define RECORDS 1024
#define PAGES	(RECORDS * sizeof(struct ptrace_bts_record) / 4096)

static volatile unsigned looked;

/* Until it was looked at: on a slow host once may not be enough. */
static void block(struct walker *walker)
{
	unsigned before = looked;

	while (walker->walked % 4 == 0 && looked == before)
		task_sleep(NAP);
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
     .source = "design 4: read by another task")
{
	struct walker walker = {.name = "blocked",
				.chain = &chain_a,
				.walks = 20,
				.options = walker_options(RECORDS),
				.between = block};
	struct ptrace_bts_record *once = test_area(PAGES), *twice = test_area(PAGES);
	unsigned turns = 0;

	walker.options.overflow = TRACE_WRAP;
	walkers_start(&walker, 1);
	while (!walker.task->ended) {
		preemption_disable();
		if (walker.task->state == TASK_BLOCKED) {
			size_t count = trace_peek(walker.tracer, 0, once, RECORDS);

			EXPECT(count > 0);
			chain_walk(&chain_b, 200);
			EXPECT_EQ(trace_peek(walker.tracer, 0, twice, RECORDS), count);
			EXPECT_EQ(equal_records(once, twice, count), count);
			check_newest(&walker, once, count);
			turns++;
			looked++;
		}
		preemption_enable();
		task_yield();
	}
	walkers_join(&walker, 1);
	EXPECT(turns > 0);
	walker_end(&walker);
}

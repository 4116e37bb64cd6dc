// SPDX-License-Identifier: MIT
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "kernel/symbols.h"
#include "kernel/trace/context.h"
#include "tests/framework/test.h"
#include "tests/lib/rig.h"
#include "tests/lib/walker.h"

static void yield(struct walker *walker)
{
	(void)walker;
	task_yield();
}

TEST(bts_switch_own_records, .group = "C", .ids = "C1", .needs = NEED_BTS,
     .claim =
	     "of two tasks that take turns each has its own branches in its buffer, and all of them",
     .source = "docs/design.md#contexts")
{
	uint64_t walks = test_scaled(300), before = sched_switch_count();
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = walks, .between = yield},
		{.name = "b", .chain = &chain_b, .walks = walks, .between = yield},
	};

	for (unsigned i = 0; i < 2; i++)
		walkers[i].options = walker_options(walks * 128 + 4096);
	walkers_start(walkers, 2);
	walkers_join_reading(walkers, 2);
	EXPECT(sched_switch_count() - before >= 2 * walks);
	walkers_check(walkers, 2);
}

#define TURNS 100
#define LONGEST_FUNCTION                                                                           \
	4096 /* bytes; the table of symbols is searched for nearer addresses only */
#define MOST 16384

/*
 * What the order of the MSR writes lets through (the order itself is a host test of the driver):
 * ds_switch_out() clears TR and ds_switch_in() sets it last, each through wrmsr(). So no other
 * branch leaves the one, none enters the other, and the first of every arrival leaves the latter.
 */
static bool inside(uint64_t address, const void *function)
{
	bool near = address - (uint64_t)function < LONGEST_FUNCTION;

	return near && symbol_start(address) == (uint64_t)function;
}

static uint64_t count_arrivals(const struct ptrace_bts_record *records, size_t count)
{
	const void *out = (const void *)ds_switch_out, *in = (const void *)ds_switch_in;
	const void *write = (const void *)wrmsr;
	uint64_t arrivals = 0, departures = 0, leave_out = 0, enter_in = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t from = records[i].from, to = records[i].to;

		departures += inside(to, out) && !inside(from, out);
		leave_out += inside(from, out) && !inside(to, out) && !inside(to, write);
		enter_in += inside(to, in) && !inside(from, in) && !inside(from, write);
		arrivals += inside(from, in) && !inside(to, in);
	}
	EXPECT(departures + 1 >= arrivals); /* the oldest arrival may have lost its departure */
	EXPECT_EQ(leave_out, 0);
	EXPECT_EQ(enter_in, 0);
	return arrivals;
}

static void yield_and_count(struct walker *walker)
{
	task_yield();
	walker->step = (unsigned)current_task()->switches;
}

static void check(const struct walker *walker)
{
	struct ptrace_bts_record *records = test_area(MOST * sizeof(*records) / 4096);
	size_t count = bts_read(walker->tracer, records, MOST);

	EXPECT(count < MOST);
	/* The scheduler may also stop the trace and then let the same task go on. */
	EXPECT(count_arrivals(records, count) >= walker->step);
}

TEST(bts_switch_order, .group = "C", .ids = "C3", .needs = NEED_BTS,
     .claim =
	     "recording stops before the DS area changes and starts after: nothing in between shows",
     .source = "SDM Vol 3, 17.4.9.2; docs/bts.md#order-of-a-switch")
{
	const struct ds_idle *idle = this_cpu()->trace->ds.idle;
	uint64_t idle_index = ds_get(idle->area, DS_BTS_INDEX);
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = TURNS, .between = yield_and_count},
		{.name = "b", .chain = &chain_b, .walks = TURNS, .between = yield_and_count},
		{.name = "untraced", .chain = &chain_b, .walks = TURNS, .between = yield_and_count},
	};

	for (unsigned i = 0; i < 2; i++) {
		walkers[i].options = walker_options(MOST);
		walkers[i].options.overflow = TRACE_WRAP;
	}
	walkers_start(walkers, 3);
	walkers_join(walkers, 3);
	for (unsigned i = 0; i < 2; i++)
		check(&walkers[i]);
	EXPECT_EQ(ds_get(idle->area, DS_BTS_INDEX), idle_index);
	for (unsigned i = 0; i < 3; i++)
		walker_end(&walkers[i]);
}

#define SLICE	    500 /* microseconds; 1000 is what the kernel starts with */
#define MOST_ROUNDS 100
#define ENOUGH	    4

/* How often the two were preempted. On a busy host the timer may come late, or not at all. */
static uint64_t round(uint64_t walks)
{
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = walks},
		{.name = "b", .chain = &chain_b, .walks = walks},
	};
	uint64_t switches;

	for (unsigned i = 0; i < 2; i++)
		walkers[i].options = walker_options(walks * 256 + 8192);
	walkers_start(walkers, 2);
	walkers_join_reading(walkers, 2);
	switches = walkers[0].task->switches + walkers[1].task->switches;
	for (unsigned i = 0; i < 2; i++)
		walker_read(&walkers[i]);
	test_observe("other_records_per_walk_and_switch", "%lu",
		     (walkers[0].others + walkers[1].others) / (switches + 2 * walks));
	walkers_check(walkers, 2);
	return switches - 2;
}

TEST(bts_switch_preempted, .group = "C", .ids = "C4", .needs = NEED_BTS,
     .claim = "tasks that the timer preempts anywhere lose no branch to the switch",
     .source = "docs/design.md#losses")
{
	uint64_t walks = test_scaled(400), preempted = 0;

	sched_set_slice(SLICE);
	for (unsigned rounds = 0; rounds < MOST_ROUNDS && preempted <= ENOUGH; rounds++)
		preempted += round(walks);
	sched_set_slice(1000);
	EXPECT(preempted > ENOUGH);
	test_observe("preempted", "%lu", preempted);
}

#define WALKS 50

/* The test's own task is the untraced one. */
static void run_untraced(const struct walker *traced)
{
	const struct trace_ring *ring = ring_of(traced->tracer);
	const void *staging = staging_area();
	uint64_t index, hardware_index;

	preemption_disable();
	index = ring->index;
	hardware_index = ds_get(staging, DS_BTS_INDEX);
	EXPECT_EQ(rdmsr(IA32_DEBUGCTL) & (ds_configuration->tr | ds_configuration->bts), 0);
	EXPECT_EQ(rdmsr(IA32_DS_AREA), this_cpu()->trace->ds.idle->area);
	EXPECT(!this_cpu()->trace->ds.loaded);
	chain_walk(&chain_b, 100);
	EXPECT_EQ(ring->index, index);
	EXPECT_EQ(ds_get(staging, DS_BTS_INDEX), hardware_index);
	preemption_enable();
}

TEST(bts_switch_untraced_frozen, .group = "C", .ids = "C2", .needs = NEED_BTS,
     .claim =
	     "while an untraced task runs TR and BTS are clear and the other's index does not move",
     .source = "docs/design.md#ownership")
{
	struct walker walker = {.name = "traced",
				.chain = &chain_a,
				.walks = WALKS,
				.options = walker_options(WALKS * 256),
				.between = yield};
	unsigned turns = 0;

	walkers_start(&walker, 1);
	while (!walker.task->ended) {
		run_untraced(&walker);
		turns++;
		task_yield();
	}
	walkers_join(&walker, 1);
	EXPECT(turns > 0);
	walkers_check(&walker, 1);
}

#define NAP	     10000 /* microseconds */
#define RECORDS	     1024
#define STABLE_WALKS 20
#define BLOCKS	     4 /* after so many walks, each time */
#define PAGES	     (RECORDS * sizeof(struct ptrace_bts_record) / 4096)

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
				.walks = STABLE_WALKS,
				.options = walker_options(RECORDS),
				.between = block};
	struct ptrace_bts_record *once = test_area(PAGES), *twice = test_area(PAGES);

	walker.options.overflow = TRACE_WRAP;
	walkers_start(&walker, 1);
	for (unsigned turn = 0; turn < STABLE_WALKS / BLOCKS; turn++) {
		size_t count;

		while (walker.task->state != TASK_BLOCKED)
			task_yield();
		count = bts_peek(walker.tracer, &(uint64_t){0}, once, RECORDS);
		EXPECT(count > 0);
		chain_walk(&chain_b, 200);
		EXPECT_EQ(bts_peek(walker.tracer, &(uint64_t){0}, twice, RECORDS), count);
		EXPECT_EQ(equal_records(once, twice, count), count);
		check_newest(&walker, once, count);
		unblock();
	}
	walkers_join(&walker, 1);
	walker_end(&walker);
}

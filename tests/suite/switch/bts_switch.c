// SPDX-License-Identifier: MIT
#include <stdbool.h>

#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/sched/sched.h"
#include "kernel/symbols.h"
#include "kernel/trace/context.h"
#include "kernel/trace/cpu.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/rig.h"
#include "tests/lib/walker.h"

static void yield(struct walker *walker)
{
	(void)walker;
	task_yield();
}

static void take_turns(uint64_t walks, enum trace_overflow overflow)
{
	uint64_t before = sched_switch_count();
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = walks, .between = yield},
		{.name = "b", .chain = &chain_b, .walks = walks, .between = yield},
	};

	for (unsigned i = 0; i < 2; i++) {
		walkers[i].options = walker_options(walks * 128 + 4096);
		walkers[i].options.overflow = overflow;
	}
	walkers_start(walkers, 2);
	walkers_join_reading(walkers, 2);
	EXPECT(sched_switch_count() - before >= 2 * walks);
	walkers_check(walkers, 2);
}

TEST(bts_switch_own_records, .group = "C", .ids = "C1", .needs = NEED_BTS,
     .claim =
	     "of two tasks that take turns each has its own branches in its buffer, and all of them",
     .source = "docs/design.md#contexts; docs/design.md#shapes")
{
	take_turns(test_scaled(150), TRACE_STOP);
	take_turns(test_scaled(150), TRACE_WRAP);
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
#define MOST_WALKS  4000

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
	for (unsigned rounds = 0; rounds < MOST_ROUNDS && preempted <= ENOUGH; rounds++) {
		uint64_t now = round(walks);

		preempted += now;
		if (!now && walks < MOST_WALKS)
			walks *= 2; /* a fast processor is through before its slice is */
	}
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
	struct walker walker CLOSED_BY(walker_end) = {.name = "blocked",
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
}

/* The state after the end of a traced task. */

#define POISON 0xe5

static uint8_t *buffer_of(const struct tracer *tracer)
{
	return (uint8_t *)ds_get(ring_of(tracer)->area, DS_BTS_BUFFER_BASE);
}

static void run_another(const struct walker *ended)
{
	struct walker another = {.name = "another",
				 .chain = walker_other_chain(ended->chain),
				 .walks = 20,
				 .options = walker_options(8192)};

	walkers_start(&another, 1);
	walkers_join(&another, 1);
	walkers_check(&another, 1);
}

static size_t buffer_bytes(const struct tracer *tracer)
{
	return ds_get_bts_end(ring_of(tracer)->area) * ds_configuration->record_size;
}

static void expect_untouched(const struct tracer *tracer, const uint8_t fields[])
{
	const uint8_t *buffer = buffer_of(tracer);
	size_t bytes = buffer_bytes(tracer), whole = 0;

	while (whole < bytes && buffer[whole] == POISON)
		whole++;
	EXPECT_EQ(whole, bytes);
	EXPECT(!memcmp(ring_of(tracer)->area, fields, DS_AREA_SIZE));
}

/*
 * `walker` has ended, by itself or by a kill. Fails the test unless its trace is off the hardware,
 * and its records can still be read and are the first of its walks in order. Nothing may be written
 * to its memory while others are traced, and all of it must be given back.
 */
static void expect_after_exit(struct walker *walker)
{
	struct tracer *tracer = walker->tracer;
	const void *area = ring_of(tracer)->area;
	struct bts_status status;
	uint8_t fields[DS_AREA_SIZE];

	EXPECT(walker->task->ended);
	EXPECT(!tracer->context->task);
	EXPECT(!tracer->context->cpu);
	EXPECT(!lease_of(tracer)->cpu);
	EXPECT(rdmsr(IA32_DS_AREA) != (uint64_t)area);
	bts_status(tracer, &status);
	EXPECT(status.ended);
	EXPECT(!status.truncated);
	EXPECT(!status.full);
	EXPECT_EQ(status.lost, 0);
	walker_read(walker);
	EXPECT(walker->reader.walk > 0);
	EXPECT_EQ(walker->reader.wrong, 0);
	memset(buffer_of(tracer), POISON, buffer_bytes(tracer));
	memcpy(fields, area, sizeof(fields));
	run_another(walker);
	expect_untouched(tracer, fields);
	walker_end(walker);
	run_another(walker);
}

/* The function that the newest departure was called by. */
static uint64_t last_departure(struct tracer *tracer)
{
	struct ptrace_bts_record record = {0};

	for (size_t n = 0; record.to != (uint64_t)trace_depart && !bts_get(tracer, n, &record); n++)
		;
	return symbol_start(record.from);
}

TEST(bts_switch_exit, .group = "C", .ids = "C5", .needs = NEED_BTS,
     .claim = "a traced task that ends leaves its records readable and its memory alone",
     .source = "docs/design.md#accounts")
{
	struct walker walker = {
		.name = "ends", .chain = &chain_a, .walks = 20, .options = walker_options(8192)};

	walkers_start(&walker, 1);
	walkers_join(&walker, 1);
	EXPECT_EQ(last_departure(walker.tracer), (uint64_t)trace_task_ended);
	expect_after_exit(&walker);
	EXPECT_EQ(walker.reader.walk, walker.walks);
}

#define LONG_NAP 60000000 /* microseconds */

/* Until it is killed, however late that is. */
static void sleep_at_last(struct walker *walker)
{
	while (walker->walked == walker->walks - 1)
		task_sleep(LONG_NAP);
}

TEST(bts_switch_kill_blocked, .group = "C", .ids = "C5", .needs = NEED_BTS,
     .claim = "a traced task killed in its sleep is not written for any more, nor woken",
     .source = "docs/design.md#accounts")
{
	struct walker walker = {.name = "asleep",
				.chain = &chain_a,
				.walks = 10,
				.options = walker_options(8192),
				.between = sleep_at_last};

	walkers_start(&walker, 1);
	while (walker.task->state != TASK_BLOCKED)
		task_yield();
	task_kill(walker.task);
	walkers_join(&walker, 1);
	EXPECT(!walker.task->sleep.running); /* what was to wake it */
	expect_after_exit(&walker);
	EXPECT_EQ(walker.reader.walk, walker.walks - 1);
}

/* The threshold is reached on the way out of the CPU, interrupts off. */
static void reach_threshold(struct walker *walker)
{
	uint64_t flags = interrupts_save();
	void *area = staging_area();

	(void)walker;

	ds_set(area, DS_BTS_INTERRUPT_THRESHOLD,
	       ds_get(area, DS_BTS_INDEX) + ds_configuration->record_size);
	task_yield();
	interrupts_restore(flags);
}

// Memory freed while the hardware could still write to it is the oldest bug of these drivers: Linux
// had it in 2008 and again in 2025. Here a PMI still pends when the task dies. By SDM Vol 3,
// 17.4.9.5 the handler then empties the buffer and resets the index, of a task that is no more.
// Passing means: a task killed with its interrupt pending keeps its records, and its memory is
// given back only when no CPU has its area loaded.
// On a failure the log has "walker.reader.walk" with fewer walks than there were, or a line of
// expect_after_exit(): "rdmsr(IA32_DS_AREA)" is an area that is still loaded.
// A line of expect_untouched() is a record written after the end.
TEST(bts_switch_kill_pending, .group = "C", .ids = "C5", .needs = NEED_BTS,
     .claim =
	     "a traced task is killed while the interrupt that its trace raised still pends: no record is lost",
     .source = "docs/design.md#accounts")
{
	struct walker walker = {.name = "pending",
				.chain = &chain_a,
				.walks = UINT64_MAX,
				.options = walker_options(65536),
				.between = reach_threshold};
	bool pending = false;
	uint64_t walked = 0;

	trace_deliver_pmi(false);
	walkers_start(&walker, 1);
	while (!pending && walker.walked < 100) {
		uint64_t flags = interrupts_save(), before = staging_reached();

		task_yield();
		pending = walker.walked > 2 && staging_reached() > before;
		if (pending) {
			walked = walker.walked;
			task_kill(walker.task);
		}
		interrupts_restore(flags);
	}
	EXPECT(pending);
	if (!pending)
		task_kill(walker.task);
	walkers_join(&walker, 1);
	trace_deliver_pmi(true);
	expect_after_exit(&walker);
	EXPECT_EQ(walker.reader.walk, walked);
}

TEST(bts_switch_kill_preempted, .group = "C", .ids = "C5", .needs = NEED_BTS,
     .claim = "a traced task killed in the middle of what it does is not written for any more",
     .source = "docs/design.md#accounts")
{
	struct walker walker = {.name = "killed",
				.chain = &chain_a,
				.walks = UINT64_MAX,
				.options = walker_options(262144)};

	sched_set_slice(500);
	walkers_start(&walker, 1);
	while (walker.walked < 20) {
		walker_read(&walker);
		task_yield();
	}
	sched_set_slice(1000);
	EXPECT_EQ(walker.task->state, TASK_READY);
	task_kill(walker.task);
	walkers_join(&walker, 1);
	expect_after_exit(&walker);
}

/* Records on their way from the hardware to a task's ring, many times over. */

/* Records between two interrupts, at the most. */
#define THRESHOLD 1024

/* More walks than the buffer has room for: without the interrupt it would overflow. */
static void yield_rarely(struct walker *walker)
{
	if (walker->walked % 32 == 0)
		task_yield();
}

/*
 * Two traced tasks walk and take turns, rarely enough that the hardware's buffer fills up. Fails
 * the test unless records were handed over again and again and every branch came through, once.
 */
static void hand_over_walks(bool nmi)
{
	uint64_t walks = test_scaled(200), before = staging_reached();
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = walks, .between = yield_rarely},
		{.name = "b", .chain = &chain_b, .walks = walks, .between = yield_rarely},
	};

	for (unsigned i = 0; i < 2; i++)
		walkers[i].options = walker_options(walks * 256);
	sched_set_slice(UINT32_MAX); /* a switch would empty the buffer before its threshold */
	trace_deliver_pmi(nmi);
	walkers_start(walkers, 2);
	walkers_join(walkers, 2);
	trace_deliver_pmi(true);
	sched_set_slice(1000);
	EXPECT(staging_reached() - before >= walks * 32 / THRESHOLD);
	walkers_check(walkers, 2);
}

TEST(bts_switch_hand_over_fixed, .group = "C", .ids = "T10 C4", .needs = NEED_BTS,
     .claim =
	     "the threshold's interrupt, by a fixed vector, hands a task's records over: none lost, none twice",
     .source = "docs/design.md#interrupt-at-the-threshold; SDM Vol 3, 17.4.9.5")
{
	hand_over_walks(false);
}

TEST(bts_switch_hand_over_nmi, .group = "C", .ids = "T10 C4", .needs = NEED_BTS,
     .claim =
	     "the threshold's interrupt, by NMI, hands a task's records over: none lost, none twice",
     .source = "docs/design.md#interrupt-at-the-threshold; SDM Vol 3, 17.4.9.5")
{
	hand_over_walks(true);
}

/* Thresholds that are reached somewhere on the way through a switch. */

#define AHEAD_WALKS 128 /* each distance twice */
#define AHEAD	    64
#define RECORD	    ds_configuration->record_size

static unsigned seen_pending;

/* Returns from the switch with interrupts still off. */
static void approach_threshold(struct walker *walker)
{
	uint64_t flags = interrupts_save();
	uint64_t distance = walker->step++ % AHEAD * RECORD;
	void *area = staging_area();
	uint64_t before = staging_reached();

	ds_set(area, DS_BTS_INTERRUPT_THRESHOLD, ds_get(area, DS_BTS_INDEX) + distance);
	task_yield();
	seen_pending += staging_reached() > before;
	interrupts_restore(flags);
}

/*
 * Two traced tasks take turns; before each turn the running one puts its threshold 0, 1, 2, ...
 * records ahead and gives up the CPU, so that over the turns it is reached at every branch of the
 * way out of the CPU and back. Interrupts stay off from there to the other task's turn: a PMI by
 * fixed vector (`nmi` false) pends across the switch. Fails the test unless no branch of either
 * was lost or came twice and no record was misplaced.
 */
static void threshold_at_switch(bool nmi)
{
	struct walker walkers[] = {
		{.name = "a",
		 .chain = &chain_a,
		 .walks = AHEAD_WALKS,
		 .between = approach_threshold},
		{.name = "b",
		 .chain = &chain_b,
		 .walks = AHEAD_WALKS,
		 .between = approach_threshold},
	};

	seen_pending = 0;
	for (unsigned i = 0; i < 2; i++)
		walkers[i].options = walker_options(AHEAD_WALKS * 256);
	trace_deliver_pmi(nmi);
	walkers_start(walkers, 2);
	walkers_join(walkers, 2);
	trace_deliver_pmi(true);
	EXPECT(seen_pending > 0);
	test_observe("pending_at_switch", "%u of %u", seen_pending, 2 * AHEAD_WALKS);
	walkers_check(walkers, 2);
}

TEST(bts_switch_pending_fixed, .group = "C", .ids = "C4 T10", .needs = NEED_BTS,
     .claim =
	     "a threshold reached on the way through a switch loses no branch: a fixed vector that pends across the switch",
     .source = "docs/design.md#ownership; SDM Vol 3, 17.4.9.5")
{
	threshold_at_switch(false);
}

// An interrupt that the old task's buffer raised can arrive when the new task's is loaded: a
// handler that looks at the loaded area finds nothing, and the old buffer overflows later without
// another interrupt. Passing means: the switch itself notices, and no branch is missing or doubled.

TEST(bts_switch_pending_nmi, .group = "C", .ids = "C4 T10", .needs = NEED_BTS,
     .claim =
	     "a threshold reached on the way through a switch loses no branch: an NMI in the scheduler",
     .source = "docs/design.md#ownership; SDM Vol 3, 17.4.9.5")
{
	threshold_at_switch(true);
}

// SPDX-License-Identifier: MIT
/* The state after the end of a traced task. */
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/sched/sched.h"
#include "kernel/trace/context.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/rig.h"
#include "tests/lib/walker.h"

#include <stdbool.h>

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

TEST(bts_switch_exit, .group = "C", .ids = "C5", .needs = NEED_BTS,
     .claim = "a traced task that ends leaves its records readable and its memory alone",
     .source = "docs/design.md#accounts")
{
	struct walker walker = {
		.name = "ends", .chain = &chain_a, .walks = 20, .options = walker_options(8192)};

	walkers_start(&walker, 1);
	walkers_join(&walker, 1);
	expect_after_exit(&walker);
	EXPECT_EQ(walker.reader.walk, walker.walks);
}

#define NAP 60000000 /* microseconds */

/* Until it is killed, however late that is. */
static void sleep_at_last(struct walker *walker)
{
	while (walker->walked == walker->walks - 1)
		task_sleep(NAP);
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

#define WALKS  128 /* each distance twice */
#define AHEAD  64
#define RECORD ds_configuration->record_size

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
		{.name = "a", .chain = &chain_a, .walks = WALKS, .between = approach_threshold},
		{.name = "b", .chain = &chain_b, .walks = WALKS, .between = approach_threshold},
	};

	seen_pending = 0;
	for (unsigned i = 0; i < 2; i++)
		walkers[i].options = walker_options(WALKS * 256);
	trace_deliver_pmi(nmi);
	walkers_start(walkers, 2);
	walkers_join(walkers, 2);
	trace_deliver_pmi(true);
	EXPECT(seen_pending > 0);
	test_observe("pending_at_switch", "%u of %u", seen_pending, 2 * WALKS);
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

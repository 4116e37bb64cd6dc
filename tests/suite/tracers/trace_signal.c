// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "kernel/time.h"
#include "tests/framework/test.h"
#include "tests/lib/viewer.h"
#include "tests/lib/walker.h"

#include <stdbool.h>

/* TRACE_SIGNAL with rings of all sizes. */

#define EXACT_WALKS 20

static uint64_t trace_ring(struct user_chain *user, size_t records, size_t threshold)
{
	struct walker walker = {.name = "signal",
				.chain = &chain_a,
				.walks = EXACT_WALKS,
				.user = user,
				.between = held_wait};
	struct bts_options options = viewer_options(TRACE_USER, EXACT_WALKS);
	struct held held;

	options.size = records * sizeof(struct ptrace_bts_record);
	options.threshold = threshold;
	walkers_create(&walker, 1);
	held_open(&held, &walker, user, options);
	task_start(walker.task);
	held_join(&held, &walker);
	held_close(&held, EXACT_WALKS);
	walker_end(&walker);
	return held.most_over;
}

/*
 * Traces ring 3 into rings from two records up, the interrupt delivered as NMI or by a fixed
 * vector: fails the test unless each branch is read exactly once.
 */
static void signal_exact(bool nmi)
{
	static const struct {
		size_t records, threshold;
	} rings[] = {{2, 1}, {2, 2}, {5, 3}, {64, 64}, {100, 0}, {400, 0}};
	USER_CHAIN(user);
	uint64_t most = 0;

	trace_deliver_pmi(nmi);
	for (unsigned i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		uint64_t over = trace_ring(&user, rings[i].records, rings[i].threshold);

		most = over > most ? over : most;
	}
	trace_deliver_pmi(true);
	test_observe("most_records_beyond_the_threshold", "%lu", most);
}

TEST(trace_signal_exact_fixed, .group = "tracers", .ids = "T10", .needs = NEED_BTS,
     .claim =
	     "a tracer that is notified at its threshold, by a fixed vector, reads each branch once, whatever its ring",
     .source = "docs/design.md#overflow")
{
	signal_exact(false);
}

TEST(trace_signal_exact_nmi, .group = "tracers", .ids = "T10", .needs = NEED_BTS,
     .claim =
	     "a tracer that is notified at its threshold, as NMI, reads each branch once, whatever its ring",
     .source = "docs/design.md#overflow")
{
	signal_exact(true);
}

/* A tracer in TRACE_SIGNAL whose threshold is reached where the test wants it. */

#define WALKS 64

static void (*on_the_way)(struct tracer *tracer);
static unsigned crossed;

/* The records in this CPU's staging are not in the ring yet. */
static void put_threshold(struct tracer *tracer, size_t ahead)
{
	void *area = staging_area();
	size_t staged = ds_get_bts_index(area) + ahead;

	set_threshold(tracer, ring_of(tracer)->used + staged);
	ds_set(area, DS_BTS_INTERRUPT_THRESHOLD,
	       ds_get(area, DS_BTS_BUFFER_BASE) + staged * ds_configuration->record_size);
}

static void cross(struct walker *walker)
{
	struct tracer *tracer = walker->tracer;
	uint64_t flags = interrupts_save();

	put_threshold(tracer, walker->step++);
	on_the_way(tracer);
	set_threshold(tracer, SIZE_MAX);
	interrupts_restore(flags);
	held_wait(walker);
}

static void walk(struct user_chain *user, bool nmi)
{
	struct walker walker CLOSED_BY(walker_end) = {.name = "crosses",
						      .chain = &chain_a,
						      .walks = WALKS,
						      .user = user,
						      .between = cross};
	struct held held;

	trace_deliver_pmi(nmi);
	walkers_create(&walker, 1);
	held_open(&held, &walker, user, viewer_options(TRACE_USER | TRACE_KERNEL, WALKS));
	walker.tracer = held.viewer.tracer;
	set_threshold(held.viewer.tracer, SIZE_MAX);
	task_start(walker.task);
	held_join(&held, &walker);
	trace_deliver_pmi(true);
	crossed += atomic_load(&held.told);
	held_close(&held, WALKS);
	walker.tracer = NULL;
}

/*
 * A task that walks in the kernel and in ring 3 is traced in all; after each walk its threshold is
 * put 0, 1, 2, ... records ahead, with interrupts off, and it calls `way`, on whose way the
 * threshold is crossed. Fails the test unless that happened and nothing is missing or came twice,
 * with the interrupt delivered either way.
 */
static void crossing_walks(void (*way)(struct tracer *tracer))
{
	USER_CHAIN(user);

	on_the_way = way;
	crossed = 0;
	walk(&user, false);
	walk(&user, true);
	EXPECT(crossed > 0);
	test_observe("crossed_on_the_way", "%u of %u", crossed, 2 * WALKS);
}

static unsigned wrong;

/* The call returns what it finds itself, too. */
static void ask(struct tracer *tracer)
{
	struct bts_status status;

	bts_status(tracer, &status);
	wrong += status.held != (status.available >= threshold_of(tracer));
	wrong += status.lost || status.truncated;
}

TEST(trace_signal_in_own_call, .group = "tracers", .ids = "T10", .needs = NEED_BTS,
     .claim =
	     "a tracer's threshold that is crossed inside a call of its interface loses and doubles nothing",
     .source = "docs/design.md#overflow")
{
	wrong = 0;
	crossing_walks(ask);
	EXPECT_EQ(wrong, 0);
}

static void yield_on_the_way(struct tracer *tracer)
{
	(void)tracer;
	task_yield();
}

TEST(trace_signal_in_switch, .group = "tracers", .ids = "C4 T10", .needs = NEED_BTS,
     .claim =
	     "a tracer's threshold that is crossed inside a context switch loses and doubles nothing",
     .source = "docs/design.md#overflow")
{
	crossing_walks(yield_on_the_way);
}

#define ROUNDS 32

static atomic_uint told;

static void tell(struct tracer *tracer, void *argument)
{
	(void)tracer;
	(void)argument;
	atomic_fetch_add(&told, 1);
}

static void yield(struct walker *walker)
{
	(void)walker;
	task_yield();
}

/* If it crossed the threshold on its way out of the CPU, its owner learns of it after the kill. */
static void kill_one(unsigned round)
{
	struct walker walker = {.name = "killed",
				.chain = &chain_a,
				.walks = UINT64_MAX,
				.options = walker_options(4096),
				.between = yield};
	unsigned before = atomic_load(&told), after;
	struct bts_status status;
	uint64_t flags, walked, end = clock_us() + test_seconds() * 1000000;

	walker.options.overflow = TRACE_SIGNAL;
	walker.options.overflowed = tell;
	walker.options.threshold = 4 * round + 4;
	flags = interrupts_save();
	walkers_start(&walker, 1);
	do
		task_yield();
	while ((walker.walked < 1 || !trace_is_held(walker.tracer)) && clock_us() < end);
	walked = walker.walked;
	task_kill(walker.task);
	interrupts_restore(flags);
	walkers_join(&walker, 1);
	bts_status(walker.tracer, &status);
	EXPECT(status.held);
	EXPECT(status.ended);
	EXPECT(status.available >= walker.options.threshold);
	EXPECT_EQ(status.lost, 0);
	EXPECT(!status.truncated);
	walker_read(&walker);
	EXPECT_EQ(walker.reader.wrong, 0);
	EXPECT(walker.reader.walk <= walked + 1); /* it may not have counted it yet */
	trace_resume(walker.tracer);
	after = atomic_load(&told);
	EXPECT_EQ(after, before + 1);
	walker_end(&walker);
	EXPECT_EQ(atomic_load(&told), after);
}

TEST(trace_signal_while_killed, .group = "tracers", .ids = "C5 T10", .needs = NEED_BTS,
     .claim =
	     "a task killed while its tracer's threshold is being crossed: told once, nothing lost or freed early",
     .source = "docs/design.md#overflow; docs/design.md#accounts")
{
	for (unsigned round = 0; round < ROUNDS && test_has_time(); round++) {
		trace_deliver_pmi(round % 2);
		kill_one(round);
	}
	trace_deliver_pmi(true);
}

#define HELD_WALKS 30

static void watch(struct user_chain *user, unsigned held_view)
{
	struct walker walker CLOSED_BY(walker_end) = {.name = "held",
						      .chain = &chain_a,
						      .walks = HELD_WALKS,
						      .user = user,
						      .between = held_wait};
	struct bts_options everything = viewer_options(TRACE_USER | TRACE_KERNEL, HELD_WALKS * 64);
	struct bts_options options = viewer_options(held_view, 0);
	struct viewer task, cpu;
	struct held held;

	walkers_create(&walker, 1);
	viewer_open(&task, &walker, &everything);
	viewer_open_cpu(&cpu, &walker, this_cpu()->index, &everything);
	options.size = 250 * sizeof(struct ptrace_bts_record);
	held_open(&held, &walker, user, options);
	task_start(walker.task);
	held_join(&held, &walker);
	EXPECT(held.served >= 3);
	everything.paused = true; /* what the test does from here on */
	EXPECT_EQ(bts_change(cpu.tracer, &everything), 0);
	viewer_expect(&task, HELD_WALKS);
	held_expect_waits(&held, &task);
	viewer_expect(&cpu, HELD_WALKS);
	held_expect_waits(&held, &cpu);
	EXPECT_EQ(held.viewer.waiting.seen, 0);
	held_close(&held, HELD_WALKS);
	viewer_close(&task);
	viewer_close(&cpu);
}

TEST(trace_hold_is_own, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim = "while a trace is held for one tracer, others of the task and of the CPU see all "
	      "that the task does",
     .source = "docs/design.md#overflow")
{
	USER_CHAIN(user);

	watch(&user, TRACE_USER);
}

#define NEAR_WALKS 60

static void ignore(struct tracer *tracer, void *argument)
{
	(void)tracer;
	(void)argument;
}

/* A tracer of ring 3, where this task never goes, is one record from its threshold. */
static void trace_near(bool nmi)
{
	struct user_chain user = {.chain = chain_b};
	struct walker walker CLOSED_BY(walker_end) = {
		.name = "near", .chain = &chain_a, .walks = NEAR_WALKS};
	struct bts_options options = walker_options(NEAR_WALKS * 256 + 4096);
	struct tracer *near = NULL;
	uint64_t before, count;
	struct viewer viewer CLOSED_BY(viewer_close);

	walkers_create(&walker, 1);
	walker.user = &user;
	viewer_open(&viewer, &walker, &options);
	walker.user = NULL;
	options = walker_options(2);
	options.view = TRACE_USER;
	options.overflow = TRACE_SIGNAL;
	options.overflowed = ignore;
	EXPECT_EQ(bts_attach(walker.task, 0, &options, &near), 0);
	before = staging_reached();
	trace_deliver_pmi(nmi);
	walker_run(&walker);
	trace_deliver_pmi(true);
	count = staging_reached() - before;
	EXPECT(count > 0);
	viewer_read(&viewer);
	chain_expect_walks(&viewer.kernel, NEAR_WALKS, "kernel");
	test_observe(nmi ? "own_records_of_nmi" : "own_records_of_fixed", "%lu",
		     (viewer.in_kernel - viewer.kernel.seen) / (count ? count : 1));
	EXPECT_EQ(bts_available(near), 0);
	EXPECT(trace_detach(near));
}

TEST(trace_near_threshold, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim =
	     "a task whose tracer is one record from its threshold gets on, whatever else it records",
     .source = "docs/design.md#overflow")
{
	trace_near(true);
	trace_near(false);
}

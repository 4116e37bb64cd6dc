// SPDX-License-Identifier: MIT
#include "drivers/clock/tsc.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/task.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/bts/record.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/walker.h"

#define PERIODS 6
#define MOST	8192
#define BATCH	64

struct check {
	unsigned pid;
	bool arrived;
	uint64_t periods, tsc, cpu, cpus, branches, wrong;
};

/* The TSC of each CPU goes on (SDM Vol 3, 17.15). That of another CPU may be far from it. */
static bool is_one_clock;

static void read_tsc(void *tsc)
{
	*(uint64_t *)tsc = tsc_read();
}

static void compare_clocks(void)
{
	is_one_clock = true;
	test_go_to(0);
	for (unsigned i = 0; i < 10 * cpu_count(); i++) {
		uint64_t before = tsc_read(), there;

		smp_call(i % cpu_count(), read_tsc, &there);
		is_one_clock &= before <= there && there <= tsc_read();
	}
	task_set_affinity(current_task(), cpu_set_all());
	if (!is_one_clock)
		test_observe("tsc", "not the same on all CPUs");
}

static void feed(struct check *check, const struct ptrace_bts_record *record)
{
	bool arrives = record->qualifier == PTRACE_BTS_TASK_ARRIVES;

	if (record->qualifier == PTRACE_BTS_BRANCH) {
		check->branches++;
		check->wrong += !check->arrived || !(record->from | record->to);
		return;
	}
	check->wrong += !arrives && record->qualifier != PTRACE_BTS_TASK_DEPARTS;
	check->wrong += check->arrived == arrives;
	check->wrong +=
		record->tsc < check->tsc && (is_one_clock || record->pid_cpu >> 32 == check->cpu);
	check->wrong += (uint32_t)record->pid_cpu != check->pid;
	check->wrong += record->pid_cpu >> 32 >= cpu_count();
	check->tsc = record->tsc;
	check->cpu = record->pid_cpu >> 32;
	check->cpus |= 1ull << check->cpu % 64;
	check->arrived = arrives;
	check->periods += arrives;
}

/* Reading costs no stamp: the newest record is a branch. */
static void move_or_yield(struct walker *walker)
{
	struct ptrace_bts_record newest;

	walker->step +=
		bts_get(walker->tracer, 0, &newest) || newest.qualifier != PTRACE_BTS_BRANCH;
	if (walker->walked % 2)
		task_yield();
	else
		test_keep_on(walker->task, walker->walked / 2 % cpu_count());
}

TEST(bts_stamps_alternate, .group = "A", .ids = "A1 A3 A4", .needs = NEED_BTS,
     .claim =
	     "stamps of arrival and departure alternate around all branches, in time, with the task's pid",
     .source = "docs/design.md#stamps")
{
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = 4 * PERIODS, .between = move_or_yield},
		{.name = "b", .chain = &chain_b, .walks = 4 * PERIODS, .between = move_or_yield},
	};
	struct ptrace_bts_record *records = test_area(MOST * sizeof(*records) / 4096);
	uint64_t before;

	compare_clocks();
	before = is_one_clock ? tsc_read() : 0;
	for (unsigned i = 0; i < 2; i++) {
		walkers[i].options = walker_options(MOST);
		walkers[i].options.stamps = true;
	}
	walkers[1].options.overflow = TRACE_WRAP;
	walkers_start(walkers, 2);
	walkers_join(walkers, 2);
	for (unsigned i = 0; i < 2; i++) {
		struct check check = {
			.pid = walkers[i].task->pid, .tsc = before, .wrong = walkers[i].step};
		size_t count = bts_read(walkers[i].tracer, records, MOST);

		EXPECT(count < MOST);
		for (size_t at = 0; at < count; at++)
			feed(&check, &records[at]);
		EXPECT_EQ(check.wrong, 0);
		EXPECT(check.periods >= PERIODS);
		if (cpu_count() <= 2 * PERIODS)
			EXPECT_EQ(check.cpus, (1ull << cpu_count()) - 1);
		EXPECT(check.branches > 0);
		EXPECT(!check.arrived);
		EXPECT(!is_one_clock || check.tsc <= tsc_read());
		walker_end(&walkers[i]);
	}
}

static struct check held;
static unsigned holds;

static void count_hold(struct tracer *tracer, void *argument)
{
	(void)tracer, (void)argument;
	holds++;
}

static void feed_all(struct tracer *tracer)
{
	struct ptrace_bts_record records[BATCH];
	size_t count;

	while ((count = bts_read(tracer, records, BATCH)) > 0)
		for (size_t at = 0; at < count; at++)
			feed(&held, &records[at]);
}

/* By the task itself, which runs on while its trace is held. */
static void read_and_resume(struct walker *walker)
{
	held.pid = walker->task->pid;
	if (!trace_is_held(walker->tracer))
		return;
	feed_all(walker->tracer);
	trace_resume(walker->tracer);
}

TEST(bts_stamps_around_hold, .group = "A", .ids = "A1", .needs = NEED_BTS,
     .claim = "where a trace is held at its threshold a stamp of departure ends it and one of "
	      "arrival begins it when it is resumed, though the task runs on",
     .source = "docs/design.md#stamps; docs/design.md#losses")
{
	struct walker walker CLOSED_BY(walker_end) = {.name = "held",
						      .chain = &chain_a,
						      .walks = 10 * PERIODS,
						      .options = walker_options(200),
						      .between = read_and_resume};

	held = (struct check){0};
	holds = 0;
	walker.options.overflow = TRACE_SIGNAL;
	walker.options.overflowed = count_hold;
	walker.options.threshold = 100;
	walker.options.stamps = true;
	walkers_start(&walker, 1);
	walkers_join(&walker, 1);
	feed_all(walker.tracer);
	EXPECT(holds >= PERIODS);
	EXPECT(held.periods >= holds);
	EXPECT(held.branches > 0);
	EXPECT_EQ(held.wrong, 0);
	EXPECT(!held.arrived);
}

#define SLOTS 5
#define TURNS 120

static size_t past_the_end, in_last_slot;

static void yield_and_look(struct walker *walker)
{
	const struct trace_ring *ring = ring_of(walker->tracer);

	task_yield();
	past_the_end += ring->index >= ring->slots || ring->used > ring->size;
	in_last_slot += ring->index <= 1; /* the stamp of arrival, or that of departure before it */
}

/* The trace of a whole life in a few slots, and what stood there before it. */
static size_t trace_short(enum trace_overflow overflow, struct ptrace_bts_record records[SLOTS + 1])
{
	struct walker walker = {.name = "short",
				.chain = &chain_a,
				.walks = TURNS,
				.options = walker_options(SLOTS),
				.between = yield_and_look};
	struct bts_struct empty;
	size_t count;

	walker.options.overflow = overflow;
	walker.options.stamps = true;
	walkers_create(&walker, 1);
	EXPECT_EQ(ds_read_bts(ring_of(walker.tracer)->area, SLOTS - 1, &empty), 0);
	EXPECT_EQ(empty.qualifier, BTS_INVALID);
	walker_run(&walker);
	count = bts_read(walker.tracer, records, SLOTS + 1);
	walker_end(&walker);
	return count;
}

TEST(bts_stamps_last_slot, .group = "A", .ids = "A4", .needs = NEED_BTS,
     .claim =
	     "a stamp in the last slot goes round, or ends a full trace; an empty slot is no record",
     .source = "docs/design.md#stamps")
{
	struct ptrace_bts_record records[SLOTS + 1];

	past_the_end = in_last_slot = 0;
	EXPECT_EQ(trace_short(TRACE_WRAP, records), SLOTS + 1);
	EXPECT_EQ(records[0].qualifier, PTRACE_BTS_GAP);
	for (unsigned i = 1; i < SLOTS; i++)
		EXPECT_EQ(records[i].qualifier, PTRACE_BTS_BRANCH);
	EXPECT_EQ(records[SLOTS].qualifier, PTRACE_BTS_TASK_DEPARTS);
	EXPECT(in_last_slot > 0);
	EXPECT_EQ(trace_short(TRACE_STOP, records), SLOTS);
	EXPECT_EQ(records[0].qualifier, PTRACE_BTS_TASK_ARRIVES);
	for (unsigned i = 1; i < SLOTS - 2; i++)
		EXPECT_EQ(records[i].qualifier, PTRACE_BTS_BRANCH);
	EXPECT_EQ(records[SLOTS - 2].qualifier, PTRACE_BTS_GAP);
	EXPECT_EQ(records[SLOTS - 1].qualifier, PTRACE_BTS_TASK_DEPARTS);
	EXPECT_EQ(past_the_end, 0);
}

// Stamps are in the same stream as branches, with a `from` in the last 16 bytes of the address
// space. Passing means: no branch that software can make is taken for a stamp, not even one from
// there.

#define START 0x10000000ul
#define JUMPS 16

/* Ring 3 jumps to the last 16 addresses there are, which is where stamps claim to come from. */
static void jump(void *argument)
{
	(void)argument;
	for (unsigned i = 0; i < JUMPS; i++) {
		struct trap_frame frame = {.rip = START, .rax = STAMP_ESCAPE + i};

		user_run(&frame);
	}
}

static void trace_jumps(enum trace_overflow overflow)
{
	static struct ptrace_bts_record records[4096];
	struct bts_options options = walker_options(4096);
	struct task *task = test_task("jumper", jump, NULL);
	struct tracer *tracer = NULL;
	size_t count, stamps = 0, faults = 0;

	options.overflow = overflow;
	if (bts_attach(task, 0, &options, &tracer))
		test_error("the task cannot be traced");
	task_start(task);
	task_join(task);
	count = bts_read(tracer, records, 4096);
	for (size_t i = 0; i < count; i++) {
		stamps += records[i].qualifier != PTRACE_BTS_BRANCH;
		faults += records[i].from == STAMP_ESCAPE + faults;
	}
	EXPECT_EQ(stamps, 0);
	EXPECT_EQ(faults, JUMPS);
	EXPECT(trace_detach(tracer));
	test_task_put(task);
}

TEST(bts_stamps_no_branch_is_one, .group = "A", .ids = "A2", .needs = NEED_BTS,
     .claim = "no branch is taken for a stamp, not even from the addresses that stamps carry",
     .source = "docs/design.md#stamps")
{
	static const uint8_t jmp_rax[] = {0xff, 0xe0};
	uint8_t *page = test_area(1);

	memcpy(page, jmp_rax, sizeof(jmp_rax));
	code_map(START, page, VM_USER);
	trace_jumps(TRACE_STOP);
	trace_jumps(TRACE_WRAP);
	code_unmap(START);
}

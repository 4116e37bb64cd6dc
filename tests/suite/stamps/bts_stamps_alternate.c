// SPDX-License-Identifier: MIT
#include "drivers/clock/tsc.h"
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#define PERIODS 6
#define MOST	8192

struct check {
	unsigned pid;
	bool arrived;
	uint64_t periods, tsc, branches, wrong;
};

static void feed(struct check *check, const struct ptrace_bts_record *record)
{
	bool arrives = record->qualifier == PTRACE_BTS_TASK_ARRIVES;

	if (record->qualifier == PTRACE_BTS_BRANCH) {
		check->branches++;
		check->wrong += !check->arrived;
		return;
	}
	check->wrong += !arrives && record->qualifier != PTRACE_BTS_TASK_DEPARTS;
	check->wrong += check->arrived == arrives;
	check->wrong += record->tsc < check->tsc;
	check->wrong += (uint32_t)record->pid_cpu != check->pid;
	check->wrong += record->pid_cpu >> 32 >= cpu_count();
	check->tsc = record->tsc;
	check->arrived = arrives;
	check->periods += arrives;
}

static void yield(struct walker *walker)
{
	if (walker->walked % 2)
		task_yield();
	else
		task_set_affinity(walker->task, 1ul << walker->walked / 2 % cpu_count());
}

TEST(bts_stamps_alternate, .group = "A", .ids = "A1 A3", .needs = NEED_BTS,
     .claim =
	     "stamps of arrival and departure alternate around all branches, in time, with the task's pid",
     .source = "docs/design.md#stamps")
{
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = 4 * PERIODS, .between = yield},
		{.name = "b", .chain = &chain_b, .walks = 4 * PERIODS, .between = yield},
	};
	struct ptrace_bts_record *records = test_area(MOST * sizeof(*records) / 4096);
	uint64_t before = tsc_read();

	for (unsigned i = 0; i < 2; i++) {
		walkers[i].options = walker_options(MOST);
		walkers[i].options.stamps = true;
	}
	walkers_start(walkers, 2);
	walkers_join(walkers, 2);
	for (unsigned i = 0; i < 2; i++) {
		struct check check = {.pid = walkers[i].task->pid, .tsc = before};
		size_t count = trace_read(walkers[i].tracer, records, MOST);

		EXPECT(count < MOST);
		for (size_t at = 0; at < count; at++)
			feed(&check, &records[at]);
		EXPECT_EQ(check.wrong, 0);
		EXPECT(check.periods >= PERIODS);
		EXPECT(check.branches > 0);
		EXPECT(!check.arrived);
		EXPECT(check.tsc <= tsc_read());
		walker_end(&walkers[i]);
	}
}

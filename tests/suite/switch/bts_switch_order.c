// SPDX-License-Identifier: MIT
#include "drivers/msr.h"
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "kernel/symbols.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#define TURNS 100
#define MOST  16384

/*
 * What the order of the MSR writes leaves behind (the order itself is a host test of the driver):
 * ds_switch_out() clears TR and ds_switch_in() sets it last, each through wrmsr(). So no other
 * branch leaves the one, none enters the other, and the first of every arrival leaves the latter.
 */
static bool inside(uint64_t address, const void *function)
{
	return symbol_start(address) == (uint64_t)function;
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

static void yield(struct walker *walker)
{
	task_yield();
	walker->step = (unsigned)current_task()->switches;
}

static void check(const struct walker *walker)
{
	struct ptrace_bts_record *records = test_area(MOST * sizeof(*records) / 4096);
	size_t count = trace_read(walker->tracer, records, MOST);

	EXPECT(count < MOST);
	/* The scheduler may also stop the trace and then let the same task go on. */
	EXPECT(count_arrivals(records, count) >= walker->step);
}

TEST(bts_switch_order, .group = "C", .ids = "C3", .needs = NEED_BTS,
     .claim =
	     "recording stops before the DS area changes and starts after: nothing in between shows",
     .source = "SDM Vol 3, 17.4.9.2; docs/bts.md#order-of-a-switch")
{
	const struct ds_idle *idle = this_cpu()->ds.idle;
	uint64_t idle_index = ds_get(idle->area, DS_BTS_INDEX);
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = TURNS, .between = yield},
		{.name = "b", .chain = &chain_b, .walks = TURNS, .between = yield},
		{.name = "untraced", .chain = &chain_b, .walks = TURNS, .between = yield},
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

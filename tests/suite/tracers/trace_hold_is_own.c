// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "tests/framework/test.h"
#include "tests/lib/held.h"

#define WALKS 30

static void watch(struct user_chain *user, unsigned held_view)
{
	struct walker walker = {.name = "held",
				.chain = &chain_a,
				.walks = WALKS,
				.user = user,
				.between = held_wait};
	struct trace_options everything = sight_options(TRACE_USER | TRACE_KERNEL, WALKS * 64);
	struct trace_options options = sight_options(held_view, 0);
	struct sight task, cpu;
	struct held held;

	walkers_create(&walker, 1);
	sight_open(&task, &walker, &everything);
	sight_open_cpu(&cpu, &walker, this_cpu()->index, &everything);
	options.size = 250 * sizeof(struct ptrace_bts_record);
	held_open(&held, &walker, user, options);
	task_start(walker.task);
	held_join(&held, &walker);
	EXPECT(held.served >= 3);
	everything.paused = true; /* what the test does from here on */
	EXPECT_EQ(trace_change(cpu.tracer, &everything), 0);
	sight_read(&task);
	sight_expect(&task, WALKS);
	held_expect_waits(&held, &task);
	sight_read(&cpu);
	sight_expect(&cpu, WALKS);
	held_expect_waits(&held, &cpu);
	EXPECT_EQ(held.sight.waiting.seen, 0);
	held_close(&held, WALKS);
	sight_close(&task);
	sight_close(&cpu);
	walker_end(&walker);
}

TEST(trace_hold_is_own, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim =
	     "while a trace is held for one tracer, others of the task and of the CPU see all that "
	     "the task does",
     .source = "docs/design.md#overflow")
{
	struct user_chain user;

	user_chain_open(&user, 0);
	watch(&user, TRACE_USER);
	user_chain_close(&user);
}

// SPDX-License-Identifier: MIT
#include "drivers/ds/registers.h"
#include "drivers/msr.h"
#include "kernel/cpu.h"
#include "kernel/smp/smp.h"
#include "tests/framework/test.h"
#include "tests/lib/sight.h"

#define WALKS 60

static uint64_t left_recording, moves;

static void look(void *argument)
{
	(void)argument;
	left_recording +=
		(rdmsr(IA32_DEBUGCTL) & (ds_configuration->tr | ds_configuration->bts)) != 0;
}

static void move(struct walker *walker)
{
	unsigned from = this_cpu()->index;

	task_set_affinity(walker->task, 1ul << walker->walked % cpu_count());
	if (this_cpu()->index == from)
		return;
	moves++;
	smp_call(from, look, NULL);
}

static void trace(const struct user_chain *user, enum trace_overflow overflow)
{
	struct walker walker = {
		.name = "moves", .chain = &chain_a, .walks = WALKS, .user = user, .between = move};
	struct trace_options options = sight_options(TRACE_USER | TRACE_KERNEL, WALKS * 4);
	struct sight sight;

	options.overflow = overflow;
	walkers_create(&walker, 1);
	sight_open(&sight, &walker, &options);
	task_start(walker.task);
	walkers_join(&walker, 1);
	sight_read(&sight);
	sight_expect(&sight, WALKS);
	sight_close(&sight);
	walker_end(&walker);
}

TEST(bts_migration_follows, .group = "S", .ids = "S2", .needs = NEED_BTS | NEED_SMP,
     .claim =
	     "a task that moves from CPU to CPU has all its branches in order, and none goes on recording",
     .source = "docs/design.md#contexts")
{
	struct user_chain user;

	left_recording = moves = 0;
	user_chain_open(&user, 0);
	trace(&user, TRACE_STOP);
	trace(&user, TRACE_WRAP);
	user_chain_close(&user);
	EXPECT(moves >= WALKS); /* of two traces */
	EXPECT_EQ(left_recording, 0);
}

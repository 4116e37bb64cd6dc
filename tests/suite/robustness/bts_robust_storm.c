// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "kernel/sched/sched.h"
#include "kernel/time.h"
#include "kernel/trap/trap.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#define PERIOD	    200 /* microseconds from the end of one blow to the next */
#define MOST_ROUNDS 100

static atomic_uint timers, sent, nmis;

static bool claim(struct trap_frame *frame)
{
	(void)frame;
	atomic_fetch_add(&nmis, 1);
	return atomic_load(&sent) > 0;
}

static void blow(struct timer *timer)
{
	atomic_fetch_add(&timers, 1);
	atomic_fetch_add(&sent, 1);
	lapic_self_nmi();
	timer_start(timer, PERIOD);
}

static void round(uint64_t walks)
{
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = walks},
		{.name = "b", .chain = &chain_b, .walks = walks},
	};
	struct timer timer = {.expired = blow};

	for (unsigned i = 0; i < 2; i++)
		walkers[i].options = walker_options(walks * 512 + 65536);
	timer_start(&timer, PERIOD);
	while (!atomic_load(&sent)) /* no NMI before the first that is the storm's */
		task_yield();
	walkers_start(walkers, 2);
	walkers_join_reading(walkers, 2);
	timer_stop(&timer);
	task_sleep(1000);
	walkers_check(walkers, 2);
}

/* On a busy host the timer may come late: as many rounds as it takes to meet it. */
TEST(bts_robust_storm, .group = "Z", .ids = "Z2", .needs = NEED_BTS,
     .claim = "in a storm of timer interrupts and NMIs traced tasks get on and lose no branch",
     .source = "docs/design.md#losses")
{
	uint64_t unknown = nmi_unknown_count();

	atomic_store(&timers, 0);
	atomic_store(&sent, 0);
	atomic_store(&nmis, 0);
	nmi_add_handler(claim);
	sched_set_slice(500);
	for (unsigned rounds = 0; rounds < MOST_ROUNDS && !atomic_load(&nmis); rounds++)
		round(test_scaled(300));
	sched_set_slice(1000);
	nmi_remove_handler(claim);
	EXPECT(atomic_load(&timers) > 0);
	EXPECT(atomic_load(&nmis) > 0);
	EXPECT_EQ(nmi_unknown_count(), unknown);
	test_note("%u timer interrupts, %u NMIs", atomic_load(&timers), atomic_load(&nmis));
}

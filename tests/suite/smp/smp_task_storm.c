// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/sched/sched.h"
#include "tests/framework/test.h"

#define TASKS 16

static atomic_ulong rounds;

/* Works, yields, sleeps and moves by its own sequence until it is killed. */
static void wander(void *argument)
{
	uint64_t state = (uint64_t)argument;

	for (;;) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		atomic_fetch_add(&rounds, 1);
		switch (state >> 61) {
		case 0:
			task_sleep(state >> 40 & 255);
			break;
		case 1:
			task_set_affinity(current_task(), 1ul << (state >> 33) % cpu_count());
			break;
		case 2:
			task_set_affinity(current_task(), UINT64_MAX);
			break;
		default:
			task_yield();
		}
	}
}

/*
 * A task that was killed on another CPU is freed once that CPU has left it, and every page then
 * waits for all CPUs to forget it: until nothing moves any more.
 */
static uint64_t settled_pages(void)
{
	uint64_t pages = 0;

	for (unsigned same = 0; same < 4; same++) {
		task_sleep(50000);
		sched_reap();
		if (page_free_count() != pages)
			same = 0;
		pages = page_free_count();
	}
	return pages;
}

TEST(smp_task_storm, .group = "S", .ids = "",
     .claim =
	     "tasks that move between CPUs and are killed anywhere run, end and give all memory back",
     .source = "kernel/sched/task.h")
{
	struct task *tasks[TASKS];
	uint64_t before = 0;

	for (uint64_t round = 0; round < test_scaled(20); round++) {
		for (unsigned i = 0; i < TASKS; i++) {
			tasks[i] = task_create("wander", wander, (void *)test_random());
			REQUIRE(tasks[i] != NULL);
		}
		task_sleep(2000);
		for (unsigned i = 0; i < TASKS; i++) {
			task_kill(tasks[i]);
			task_join(tasks[i]);
			task_put(tasks[i]);
		}
		/* The first round also pays for page tables. */
		if (round == 0)
			before = settled_pages();
	}
	EXPECT_EQ(settled_pages(), before);
	EXPECT(atomic_load(&rounds) > TASKS);
	test_note("%lu rounds on %u CPUs", atomic_load(&rounds), cpu_count());
}

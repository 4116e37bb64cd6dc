// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "tests/framework/pages.h"
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

TEST(smp_task_storm, .group = "S", .ids = "",
     .claim =
	     "tasks that move between CPUs and are killed anywhere run, end and give all memory back",
     .source = "kernel/sched/task.h")
{
	struct task *tasks[TASKS];
	uint64_t before = pages_left();

	for (uint64_t round = 0; round < test_scaled(20); round++) {
		uint64_t begun = atomic_load(&rounds);

		for (unsigned i = 0; i < TASKS; i++) {
			tasks[i] = task_create("wander", wander, (void *)test_random());
			REQUIRE(tasks[i] != NULL);
		}
		do
			task_sleep(2000);
		while (atomic_load(&rounds) == begun);
		for (unsigned i = 0; i < TASKS; i++) {
			task_kill(tasks[i]);
			task_join(tasks[i]);
			task_put(tasks[i]);
		}
	}
	EXPECT_EQ(pages_missing(before), 0);
	EXPECT(atomic_load(&rounds) > TASKS);
	test_note("%lu rounds on %u CPUs", atomic_load(&rounds), cpu_count());
}

// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "tests/framework/pages.h"
#include "tests/framework/test.h"

#define TASKS 16

static atomic_ulong rounds[TASKS], moves, misplaced;

static void move(unsigned cpu)
{
	task_set_affinity(current_task(), 1ul << cpu);
	atomic_fetch_add(&moves, 1);
	if (this_cpu()->index != cpu)
		atomic_fetch_add(&misplaced, 1);
}

/* Works, yields, sleeps and moves by its own sequence until it is killed. */
static void wander(void *argument)
{
	atomic_ulong *own = argument;
	uint64_t state = atomic_exchange(own, 0);

	for (;;) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		atomic_fetch_add(own, 1);
		switch (state >> 61) {
		case 0:
			task_sleep(state >> 40 & 255);
			break;
		case 1:
			move((unsigned)(state >> 33) % cpu_count());
			break;
		case 2:
			task_set_affinity(current_task(), UINT64_MAX);
			break;
		default:
			task_yield();
		}
	}
}

/* A task's rounds are its seed, which has the highest bit, until it has begun. */
static bool has_run(unsigned i)
{
	uint64_t now = atomic_load(&rounds[i]);

	return now && !(now >> 63);
}

static uint64_t sum(void)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < TASKS; i++)
		all += atomic_load(&rounds[i]);
	return all;
}

static void end(struct task *task)
{
	task_kill(task);
	task_join(task);
	EXPECT(task->ended);
	task_put(task);
}

TEST(smp_task_storm, .group = "S", .ids = "",
     .claim =
	     "tasks that move between CPUs and are killed anywhere run where they may, end and give "
	     "all memory back",
     .source = "kernel/sched/task.h")
{
	struct task *tasks[TASKS];
	uint64_t before = pages_left(), all = 0;

	for (uint64_t round = 0; round < test_scaled(20); round++) {
		uint64_t ended;

		for (unsigned i = 0; i < TASKS; i++) {
			atomic_store(&rounds[i], test_random() | 1ul << 63);
			tasks[i] = task_create("wander", wander, &rounds[i]);
			REQUIRE(tasks[i] != NULL);
		}
		for (unsigned i = 0; i < TASKS; i++)
			while (!has_run(i))
				task_sleep(500);
		for (unsigned i = 0; i < TASKS; i++)
			end(tasks[i]);
		ended = sum();
		task_sleep(500);
		EXPECT_EQ(sum(), ended);
		all += ended;
	}
	EXPECT_EQ(pages_missing(before), 0);
	EXPECT(atomic_load(&moves) > 0);
	EXPECT_EQ(atomic_load(&misplaced), 0);
	test_note("%lu rounds on %u CPUs", all, cpu_count());
}

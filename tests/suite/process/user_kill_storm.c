// SPDX-License-Identifier: MIT
#include "kernel/sched/sched.h"
#include "kernel/time.h"
#include "tests/lib/programs.h"

#define ROOTS  6
#define ENOUGH 10 /* seconds, for a machine under load */

TEST(user_kill_storm, .group = "process", .ids = "",
     .claim =
	     "processes that fork, map, sleep, move and wait can be killed at any point; nothing is left",
     .source = "kernel/process/process.h")
{
	uint64_t before = programs_begin(), end = time_now() + test_scaled(ENOUGH) * 1000000;

	for (uint64_t round = 0; round < test_scaled(15) && time_now() < end; round++) {
		struct process *roots[ROOTS];

		for (unsigned i = 0; i < ROOTS; i++)
			roots[i] = program_start("storm", test_random());
		for (unsigned i = 0; i < ROOTS; i++) {
			task_sleep(test_random() % 4000);
			process_signal(roots[i], i & 1 ? SIGKILL : SIGSTOP);
		}
		process_kill_all();
		for (unsigned i = 0; i < ROOTS; i++)
			program_end(roots[i]);
	}
	programs_end(before);
}

// SPDX-License-Identifier: MIT
#include "kernel/sched/sched.h"
#include "tests/lib/programs.h"

TEST(user_preempted, .group = "process", .ids = "",
     .claim = "programs that never call the kernel share the CPUs, and can be stopped and killed",
     .source = "kernel/process/process.h")
{
	uint64_t before = programs_begin(), end;
	struct process *spinners[8];

	for (unsigned i = 0; i < 8; i++)
		spinners[i] = program_start("spin", i % 2);
	/* However long that takes: the watchdog's limit is the only one. */
	for (unsigned i = 0; i < 8; i++)
		while (!((volatile struct task *)spinners[i]->task)->switches)
			task_sleep(1000);
	process_signal(spinners[0], SIGSTOP);
	EXPECT_EQ(process_await(spinners[0], true), WAIT_STOPPED(SIGSTOP));
	end = spinners[0]->task->switches;
	task_sleep(20000);
	EXPECT_EQ(spinners[0]->task->switches, end);
	for (unsigned i = 0; i < 8; i++) {
		process_signal(spinners[i], SIGTERM);
		process_signal(spinners[i], SIGCONT);
		EXPECT_EQ(program_end(spinners[i]), WAIT_KILLED(SIGTERM));
	}
	programs_end(before);
}

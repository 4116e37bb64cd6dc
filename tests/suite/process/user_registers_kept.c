// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "tests/lib/programs.h"

#define MOST 24

TEST(user_registers_kept, .group = "process", .ids = "",
     .claim =
	     "general, SSE and x87 control registers of a process are its own, whoever runs in between",
     .source = "kernel/trap/user.h")
{
	uint64_t before = programs_begin(), milliseconds = test_scaled(200) & 0xffff;
	struct process *processes[MOST];
	unsigned count = 2 * cpu_count() + 1 < MOST ? 2 * cpu_count() + 1 : MOST;

	sched_set_slice(100);
	for (unsigned i = 0; i < count; i++)
		processes[i] = program_start("registers", milliseconds | test_random() << 16);
	for (unsigned i = 0; i < count; i++)
		EXPECT_EQ(program_end(processes[i]), WAIT_EXITED(0));
	sched_set_slice(1000);
	programs_end(before);
}

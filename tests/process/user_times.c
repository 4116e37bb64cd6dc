// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "tests/lib/programs.h"

TEST(user_times, .group = "process", .ids = "",
     .claim = "a process sleeps at least as long as it said, and runs on the CPU that it named",
     .source = "include/abi/syscall.h")
{
	uint64_t before = programs_begin();

	EXPECT_EQ(program_run("times", cpu_count()), WAIT_EXITED(0));
	programs_end(before);
}

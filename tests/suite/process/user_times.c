// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "tests/lib/programs.h"

TEST(user_times, .group = "process", .ids = "",
     .claim = "a process sleeps at least as long as it said, and runs on the CPU that it named",
     .source = "include/abi/syscall.h")
{
	program_expect("times", cpu_count(), false);
}

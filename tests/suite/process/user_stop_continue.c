// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(user_stop_continue, .group = "process", .ids = "",
     .claim =
	     "a process is stopped, goes on and is killed in ring 3 and asleep, and its parent hears of it",
     .source = "include/abi/syscall.h")
{
	program_expect("stop_continue", 0, false);
}

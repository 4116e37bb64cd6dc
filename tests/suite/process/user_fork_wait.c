// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(user_fork_wait, .group = "process", .ids = "",
     .claim = "fork() copies memory and registers; wait4() reports each child once",
     .source = "include/abi/syscall.h")
{
	program_expect("fork_wait", 0, false);
}

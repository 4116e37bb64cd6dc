// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(user_fork_wait, .group = "process", .ids = "",
     .claim = "fork() copies memory and registers; wait4() reports each child once",
     .source = "include/abi/syscall.h")
{
	uint64_t before = programs_begin();

	EXPECT_EQ(program_run("fork_wait", 0), WAIT_EXITED(0));
	programs_end(before);
}

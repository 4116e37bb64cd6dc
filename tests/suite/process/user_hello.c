// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(user_hello, .group = "process", .ids = "",
     .claim = "a program runs in ring 3, writes, and its exit code arrives",
     .source = "include/abi/syscall.h")
{
	uint64_t before = programs_begin();

	EXPECT_EQ(program_run("hello", 0), WAIT_EXITED(0));
	EXPECT_EQ(program_run("hello", 77), WAIT_EXITED(77));
	EXPECT_EQ(program_run("hello", 0x1ff), WAIT_EXITED(0xff));
	programs_end(before);
}

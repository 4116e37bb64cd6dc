// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(user_memory, .group = "process", .ids = "",
     .claim = "anonymous memory is zeroed, private, gone when given back, bounded",
     .source = "include/abi/syscall.h")
{
	uint64_t before = programs_begin();

	EXPECT_EQ(program_run("memory", 0), WAIT_EXITED(0));
	programs_end(before);
}

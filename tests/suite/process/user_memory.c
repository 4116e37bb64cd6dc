// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(user_memory, .group = "process", .ids = "",
     .claim = "anonymous memory is zeroed, private, gone when given back, bounded",
     .source = "include/abi/syscall.h")
{
	program_expect("memory", 0, false);
}

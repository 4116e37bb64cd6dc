// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(user_resource_limits, .group = "process", .ids = "",
     .claim = "a process reads, lowers and raises its limit of locked memory as far as it may, and "
	      "its children begin with it",
     .source = "include/abi/syscall.h")
{
	program_expect("resource_limits", 0, false);
	program_expect("resource_limits", 1, true);
}

// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(user_bad_pointers, .group = "process", .ids = "",
     .claim =
	     "every pointer that is not the program's own is -EFAULT in every call, and changes nothing",
     .source = "include/abi/syscall.h")
{
	program_expect("bad_pointers", 0, false);
}

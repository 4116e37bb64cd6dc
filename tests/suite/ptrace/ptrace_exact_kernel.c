// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_exact_kernel, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "a tracer with the right to kernel addresses sees the kernel's branches and the "
	      "transitions as well, none missing, and the same of ring 3",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_KERNEL")
{
	program_expect("ptrace_exact", test_scaled(20) << 8 | 1, true);
}

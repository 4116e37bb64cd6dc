// SPDX-License-Identifier: MIT
#include "drivers/ds/ds.h"
#include "tests/lib/programs.h"

TEST(ptrace_exact_user, .group = "I", .ids = "P5", .needs = NEED_BTS,
     .claim = "over system calls, interrupts, faults and signals a tracer sees exactly the "
	      "branches of ring 3, and no kernel address",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_USER")
{
	program_expect("ptrace_exact", test_scaled(20) << 8 | (ds_caps()->filters ? 0 : 2), false);
}

// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_bts_read_elsewhere, .group = "I", .ids = "", .needs = NEED_BTS | NEED_SMP,
     .claim = "reading a CPU's trace from another costs no stamp, and no branch shows as another "
	      "process's",
     .source = "tests/user/cpu_reader.c")
{
	program_expect("cpu_reader", test_scaled(300), true);
}

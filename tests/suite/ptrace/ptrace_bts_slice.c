// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_bts_slice, .group = "I", .ids = "I5", .needs = NEED_BTS,
     .claim = "the default limit of memory is enough for what a task that branches all the time "
	      "leaves in its time slice",
     .source = "docs/ptrace-bts.2, Limits")
{
	program_expect("ptrace_memory", 0, false);
}

// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_bts_limits, .group = "I", .ids = "I5", .needs = NEED_BTS,
     .claim =
	     "over the limit of memory a buffer is refused or cut, as asked; a replaced one does not count",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
{
	program_expect("ptrace_bts", 1, false);
}

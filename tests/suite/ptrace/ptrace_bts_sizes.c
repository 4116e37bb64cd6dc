// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_bts_sizes, .group = "I", .ids = "I3 I4 I10", .needs = NEED_BTS,
     .claim =
	     "a buffer's size is rounded down and told, its records stay while the size does, size 0 frees it",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
{
	program_expect("ptrace_bts", 0, false);
}

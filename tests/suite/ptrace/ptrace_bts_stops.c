// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_bts_stops, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim =
	     "a buffer that keeps the oldest records stops when full and goes on when there is room",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
{
	program_expect("ptrace_bts", 3, false);
}

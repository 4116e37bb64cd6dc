// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_bts_reads, .group = "I", .ids = "I8 I9 I10", .needs = NEED_BTS,
     .claim =
	     "records are read newest first by index, oldest first in one piece or several, wrapped or not",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
{
	program_expect("ptrace_bts", 2, false);
}

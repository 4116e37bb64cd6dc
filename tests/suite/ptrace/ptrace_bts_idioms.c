// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_bts_idioms, .group = "I", .ids = "I3 I4 I10", .needs = NEED_BTS,
     .claim =
	     "what STATUS returns can be given to CONFIG, a size of 0 frees whatever the flags, the "
	     "same request that is cut again keeps the records, SCHED alone records stamps alone",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
{
	program_expect("ptrace_bts", 8, false);
}

// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_bts_outlives, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim =
	     "a trace can be read when its process has ended, until wait4() has reported that or it "
	     "is detached",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
{
	program_expect("ptrace_bts", 4, false);
}

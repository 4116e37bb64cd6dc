// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_bts_ends, .group = "I", .ids = "I5", .needs = NEED_BTS,
     .claim =
	     "a process that ended and was waited for gives back its place and its tracer's buffer "
	     "without being detached",
     .source = "docs/ptrace-bts.2, Stops")
{
	program_expect("ptrace_memory", 1, false);
}

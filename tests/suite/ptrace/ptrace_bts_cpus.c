// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_bts_cpus, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "a process with the right to it traces a CPU as it does a process, but for signals",
     .source = "docs/ptrace-bts.2, Tracing a CPU")
{
	program_expect("ptrace_bts", 5, true);
}

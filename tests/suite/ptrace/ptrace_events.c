// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_events, .group = "I", .ids = "",
     .claim = "a debugger learns the cause of a stop, reads and writes single registers, and is "
	      "stopped for children and for the end of its tracee where it asked for that",
     .source = "docs/ptrace-bts.2, PTRACE_SETOPTIONS")
{
	program_expect("ptrace_events", 0, false);
}

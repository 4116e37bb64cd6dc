// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_bts_stepped, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "a process that is stepped and traced at once has a record for each step that is a "
	      "branch, from where to where, and none for the others",
     .source = "docs/ptrace-bts.2, PTRACE_SINGLESTEP")
{
	program_expect("ptrace_bts", 7, false);
}

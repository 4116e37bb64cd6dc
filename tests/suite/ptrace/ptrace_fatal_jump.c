// SPDX-License-Identifier: MIT
#include "kernel/trace/trace.h"
#include "tests/lib/programs.h"

TEST(ptrace_fatal_jump, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim =
	     "the jump that killed a program is its newest record, wherever it led; no other has an "
	     "address of the kernel",
     .source = "tests/user/fatal_jump.c")
{
	program_expect("fatal_jump", 0, false);
}

TEST(ptrace_fatal_jump_software, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "without DS-CPL it is as well", .source = "tests/user/fatal_jump.c")
{
	trace_filter_in_software(true);
	program_expect("fatal_jump", 0, false);
	trace_filter_in_software(false);
}

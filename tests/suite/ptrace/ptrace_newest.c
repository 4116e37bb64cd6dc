// SPDX-License-Identifier: MIT
#include "kernel/trace/trace.h"
#include "tests/lib/programs.h"

TEST(ptrace_newest, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim =
	     "at every kind of stop a buffer of 1 to 5,000 records holds the newest of what a long "
	     "one holds",
     .source = "tests/user/newest.c")
{
	program_expect("newest", 1, false);
}

TEST(ptrace_newest_software, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "without DS-CPL it holds the same", .source = "tests/user/newest.c")
{
	trace_filter_in_software(true);
	program_expect("newest", 1, false);
	trace_filter_in_software(false);
}

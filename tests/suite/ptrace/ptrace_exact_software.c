// SPDX-License-Identifier: MIT
#include "kernel/trace/trace.h"
#include "tests/lib/programs.h"

TEST(ptrace_exact_software, .group = "I", .ids = "P4 P5", .needs = NEED_BTS,
     .claim = "without DS-CPL a tracer sees exactly the branches of ring 3 too",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SOFTWARE")
{
	trace_filter_in_software(true);
	program_expect("ptrace_exact", test_scaled(10) << 8 | 2, false);
	trace_filter_in_software(false);
}

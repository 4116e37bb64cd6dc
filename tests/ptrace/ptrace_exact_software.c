// SPDX-License-Identifier: MIT
#include "kernel/trace/trace.h"
#include "tests/lib/programs.h"

TEST(ptrace_exact_software, .group = "I", .ids = "P4 P5", .needs = NEED_BTS,
     .claim = "without DS-CPL a tracer sees exactly the branches of ring 3 too",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SOFTWARE")
{
	uint64_t before = programs_begin(), rounds = test_scaled(10);

	trace_filter_in_software(true);
	EXPECT_EQ(program_run("ptrace_exact", rounds << 8 | 2), WAIT_EXITED(0));
	trace_filter_in_software(false);
	programs_end(before);
}

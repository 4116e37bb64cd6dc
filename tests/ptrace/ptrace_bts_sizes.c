// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_bts_sizes, .group = "I", .ids = "I3 I4 I10", .needs = NEED_BTS,
     .claim =
	     "a buffer's size is rounded down and told, its records stay while the size does, size 0 frees it",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG to READ")
{
	uint64_t before = programs_begin();

	EXPECT_EQ(program_run("ptrace_bts", 0), WAIT_EXITED(0));
	programs_end(before);
}

// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_bts_reads, .group = "I", .ids = "I8 I9 I10", .needs = NEED_BTS,
     .claim =
	     "records are read newest first by index, oldest first in one piece or several, wrapped or not",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG to READ")
{
	uint64_t before = programs_begin();

	EXPECT_EQ(program_run("ptrace_bts", 2), WAIT_EXITED(0));
	programs_end(before);
}

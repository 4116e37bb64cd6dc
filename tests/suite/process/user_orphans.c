// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(user_orphans, .group = "process", .ids = "",
     .claim =
	     "children whose parent ended are forgotten when they end, in whatever state they were",
     .source = "kernel/process/process.h")
{
	uint64_t before = programs_begin();

	for (uint64_t i = 0; i < test_scaled(10); i++)
		EXPECT_EQ(program_run("orphans", i % 13), WAIT_EXITED(0));
	programs_end(before);
}

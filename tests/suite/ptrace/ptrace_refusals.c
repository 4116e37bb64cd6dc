// SPDX-License-Identifier: MIT
#include "drivers/ds/ds.h"
#include "tests/lib/programs.h"

TEST(ptrace_refusals, .group = "I", .ids = "I1 I2",
     .claim = "every request that the table of errors refuses is refused by its error and changes "
	      "nothing",
     .source = "docs/ptrace-bts.2, ERRORS")
{
	uint64_t before = programs_begin();
	struct process *privileged;

	REQUIRE_EQ(process_spawn_privileged("spin", 0, &privileged), 0);
	EXPECT_EQ(program_run("ptrace_refusals", (uint64_t)privileged->pid << 8 | ds_present()),
		  WAIT_EXITED(0));
	process_signal(privileged, SIGKILL);
	program_end(privileged);
	programs_end(before);
}

// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_bts_cpus, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "a process with the right to it traces a CPU as it does a process, but for signals",
     .source = "docs/ptrace-bts.2, Tracing a CPU")
{
	uint64_t before = programs_begin();
	struct process *process;

	REQUIRE_EQ(process_spawn_privileged("ptrace_bts", 5, &process), 0);
	EXPECT_EQ(program_end(process), WAIT_EXITED(0));
	programs_end(before);
}

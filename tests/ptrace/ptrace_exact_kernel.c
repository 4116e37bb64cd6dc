// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_exact_kernel, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "a tracer with the right to kernel addresses sees the kernel's branches and the "
	      "transitions as well, none missing, and the same of ring 3",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_KERNEL")
{
	uint64_t before = programs_begin(), rounds = test_scaled(20);
	struct process *process;

	REQUIRE_EQ(process_spawn_privileged("ptrace_exact", rounds << 8 | 1, &process), 0);
	EXPECT_EQ(program_end(process), WAIT_EXITED(0));
	programs_end(before);
}

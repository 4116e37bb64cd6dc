// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

#define PROCESSES 5

TEST(user_random_calls, .group = "process", .ids = "",
     .claim = "no system call with any number and arguments harms the kernel or stops its caller",
     .source = "include/abi/syscall.h")
{
	uint64_t before = programs_begin(), each = test_scaled(100000) / PROCESSES + 1;
	struct process *processes[PROCESSES];

	for (unsigned i = 0; i < PROCESSES; i++) {
		uint64_t seed = test_random() & UINT32_MAX;

		test_note("%lu calls with seed 0x%lx", each, seed);
		processes[i] = program_start("random_calls", each << 32 | seed);
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		EXPECT_EQ(program_end(processes[i]), WAIT_EXITED(42));
	programs_end(before);
}

// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

#define PROCESSES 4

TEST(ptrace_random, .group = "I", .ids = "P5",
     .claim =
	     "no request with any arguments, of processes in any state, harms the kernel, stops its "
	     "caller, or reads a kernel address without the right to it",
     .source = "docs/ptrace-bts.2: 1000000 calls with -t ptrace_random -a scale=12500")
{
	uint64_t before = programs_begin(), each = test_scaled(8000) / PROCESSES + 1;
	struct process *processes[PROCESSES];

	for (unsigned i = 0; i < PROCESSES; i++) {
		uint64_t seed = test_random() & UINT32_MAX;

		test_note("%lu calls with seed 0x%lx", each, seed);
		processes[i] = program_start("ptrace_random", each << 32 | seed);
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		EXPECT_EQ(process_await(processes[i], true), WAIT_STOPPED(SIGSTOP));
	for (unsigned i = 0; i < PROCESSES; i++)
		process_signal(processes[i], SIGCONT);
	for (unsigned i = 0; i < PROCESSES; i++)
		EXPECT_EQ(program_end(processes[i]), WAIT_EXITED(42));
	programs_end(before);
}

// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

/* By the argument of the program `faults`. */
static const struct {
	unsigned signal, vector;
} faults[] = {
	{SIGSEGV, VECTOR_PF}, {SIGSEGV, VECTOR_PF}, {SIGSEGV, VECTOR_PF}, {SIGSEGV, VECTOR_PF},
	{SIGSEGV, VECTOR_PF}, {SIGSEGV, VECTOR_PF}, {SIGSEGV, VECTOR_GP}, {SIGSEGV, VECTOR_GP},
	{SIGBUS, VECTOR_SS},  {SIGILL, VECTOR_UD},  {SIGTRAP, VECTOR_BP}, {SIGSEGV, VECTOR_GP},
	{SIGSEGV, VECTOR_GP}, {SIGSEGV, VECTOR_GP}, {SIGSEGV, VECTOR_GP}, {SIGSEGV, VECTOR_GP},
	{SIGSEGV, VECTOR_GP}, {SIGSEGV, VECTOR_GP}, {SIGTRAP, VECTOR_DB}, {SIGSEGV, VECTOR_GP},
	{SIGSEGV, VECTOR_GP}, {SIGSEGV, VECTOR_GP}, {SIGSEGV, VECTOR_GP}, {SIGILL, VECTOR_UD},
	{SIGFPE, VECTOR_MF},  {SIGFPE, VECTOR_DE},  {SIGSEGV, VECTOR_PF},
};

/* A push to an address that is not canonical: emulators are seen to raise #GP for the #SS. */
#define STACK_CASE 8

TEST(user_faults, .group = "process", .ids = "",
     .claim = "what ring 3 may not do ends the program with the signal of the exception",
     .source = "SDM Vol 3, 6.15; kernel/process/signal.c")
{
	uint64_t before = programs_begin();

	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct process *process = program_start("faults", i);

		int status = process_await(process, false);
		bool same = status == WAIT_KILLED((int)faults[i].signal) &&
			    process->fault.vector == faults[i].vector;

		if (i == STACK_CASE && process->fault.vector == VECTOR_GP)
			same = status == WAIT_KILLED(SIGSEGV);
		if (!EXPECT(same))
			test_note("case %u: status 0x%x after vector %lu", i, (unsigned)status,
				  process->fault.vector);
		process_put(process);
	}
	programs_end(before);
}

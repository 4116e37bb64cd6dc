// SPDX-License-Identifier: MIT
#include "tests/lib/threshold_signal.h"

#include "kernel/smp/smp.h"
#include "kernel/trace/trace.h"
#include "tests/lib/programs.h"

static void deliver(void *nmi)
{
	trace_deliver_pmi(nmi != NULL);
}

void threshold_signal(unsigned mode, uint64_t walks, bool nmi)
{
	uint64_t before = programs_begin(), argument = walks << 32 | (test_random() & 0xffffff)
									     << 8;
	struct process *process;

	smp_call_all(deliver, nmi ? &process : NULL);
	REQUIRE_EQ(process_spawn_privileged("ptrace_signal", argument | mode, &process), 0);
	EXPECT_EQ(program_end(process), WAIT_EXITED(0));
	smp_call_all(deliver, &process);
	programs_end(before);
}

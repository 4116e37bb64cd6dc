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
	uint64_t scaled = test_scaled(walks), most = scaled > walks ? scaled : walks;
	uint64_t argument = most << 32 | (test_random() & 0xffffff) << 8 | mode;

	smp_call_all(deliver, nmi ? &argument : NULL);
	program_expect("ptrace_signal", argument, true);
	smp_call_all(deliver, &argument);
}

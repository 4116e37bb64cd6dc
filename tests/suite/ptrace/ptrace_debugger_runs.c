// SPDX-License-Identifier: MIT
#include "kernel/smp/smp.h"
#include "kernel/trace/trace.h"
#include "tests/lib/programs.h"

#define PRIVILEGED (1ul << 48)

static void deliver(void *nmi)
{
	trace_deliver_pmi(nmi != NULL);
}

/* Each way in which the kernel can have the branches: the program cannot tell them apart. */
static void runs(bool nmi, bool in_software, bool privileged, uint64_t count)
{
	uint64_t seed = test_random() & UINT32_MAX;

	test_note("%lu runs from seed 0x%lx%s%s%s", count, seed, nmi ? "" : ", fixed interrupt",
		  in_software ? ", filtered by the kernel" : "",
		  privileged ? ", with the right to kernel addresses" : "");
	smp_call_all(deliver, nmi ? &seed : NULL);
	trace_filter_in_software(in_software);
	program_expect("debugger", seed | count << 32 | (privileged ? PRIVILEGED : 0), privileged);
	trace_filter_in_software(false);
	smp_call_all(deliver, &seed);
}

TEST(ptrace_debugger_runs, .group = "I", .ids = "P4 P5 I3 I6 I7", .needs = NEED_BTS,
     .claim =
	     "small programs that are stopped in any way have the branches in their buffers, of any "
	     "size and kind, that single-stepping of them shows, by any request that reads them",
     .source = "docs/ptrace-bts.2, Tracing branches")
{
	uint64_t count = test_scaled(1);

	for (unsigned way = 0; way < 8; way++)
		runs(!(way & 1), way & 2, way & 4, count);
}

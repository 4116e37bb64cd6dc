// SPDX-License-Identifier: MIT
#include "kernel/smp/smp.h"
#include "kernel/trace/bts/bts.h"
#include "tests/framework/test.h"
#include "tests/lib/programs.h"

#include <stdbool.h>
#include <stdint.h>

/* Programs whose children stop at the thresholds of their traces. */

enum { THRESHOLD_USER, THRESHOLD_KERNEL, THRESHOLD_IN_CALLS, THRESHOLD_KILLED, THRESHOLD_SENT };

static void deliver(void *nmi)
{
	trace_deliver_pmi(nmi != NULL);
}

/*
 * Runs the program ptrace_signal in this mode for so many walks, or more if scale= says so (fewer
 * may not come to a threshold), with the interrupt delivered as NMI, or as a fixed vector, on all
 * CPUs; expects it to find nothing wrong.
 */
static void threshold_signal(unsigned mode, uint64_t walks, bool nmi)
{
	uint64_t scaled = test_scaled(walks), most = scaled > walks ? scaled : walks;
	uint64_t argument = most << 32 | (test_random() & 0xffffff) << 8 | mode;

	smp_call_all(deliver, nmi ? &argument : NULL);
	program_expect("ptrace_signal", argument, true);
	smp_call_all(deliver, &argument);
}

TEST(ptrace_signal_fixed, .group = "I", .ids = "I6 I7", .needs = NEED_BTS,
     .claim = "the same with an interrupt that waits while interrupts are off",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL")
{
	threshold_signal(THRESHOLD_USER, 60, false);
}

TEST(ptrace_signal_nmi, .group = "I", .ids = "I6 I7", .needs = NEED_BTS,
     .claim =
	     "processes stop at the thresholds of their traces, once a crossing; no branch is lost or comes twice",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL")
{
	threshold_signal(THRESHOLD_USER, 60, true);
}

TEST(ptrace_signal_kernel, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim =
	     "the same where the kernel's branches are recorded too, so that thresholds come in calls and switches",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL")
{
	threshold_signal(THRESHOLD_KERNEL, 40, true);
}

TEST(ptrace_signal_in_calls, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim = "the same where the tracee is a tracer itself, and its own requests are recorded",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL")
{
	threshold_signal(THRESHOLD_IN_CALLS, 20, false);
}

TEST(ptrace_signal_killed, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim =
	     "what was recorded of processes that are killed at their thresholds is in order and complete",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL")
{
	threshold_signal(THRESHOLD_KILLED, 15, true);
}

TEST(ptrace_signal_sent, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim = "the same where the buffer's signal is sent to the tracee: it stops at the threshold "
	      "because that is about to act",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL_TRACEE")
{
	threshold_signal(THRESHOLD_SENT, 60, true);
}

TEST(ptrace_overflow_to_tracee, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim = "the signal of a buffer that is sent to the tracee acts there if its tracer lets it",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL_TRACEE")
{
	program_expect("ptrace_overflow", 0, false);
}

TEST(ptrace_overflow_to_tracer, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim =
	     "the signal of a buffer that is sent to the tracer arrives there once a crossing, says "
	     "which tracee's it is, and acts",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL_TRACER")
{
	program_expect("ptrace_overflow", 1, false);
	program_expect("ptrace_overflow", 2, false);
}

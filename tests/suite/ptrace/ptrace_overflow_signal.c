// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

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

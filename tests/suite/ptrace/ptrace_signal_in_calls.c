// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/threshold_signal.h"

TEST(ptrace_signal_in_calls, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim = "the same where the tracee is a tracer itself, and its own requests are recorded",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL")
{
	threshold_signal(THRESHOLD_IN_CALLS, 20, false);
}

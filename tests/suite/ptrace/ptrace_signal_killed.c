// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/threshold_signal.h"

TEST(ptrace_signal_killed, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim =
	     "what was recorded of processes that are killed at their thresholds is in order and complete",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL")
{
	threshold_signal(THRESHOLD_KILLED, 15, true);
}

// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/threshold_signal.h"

TEST(ptrace_signal_fixed, .group = "I", .ids = "I6 I7", .needs = NEED_BTS,
     .claim = "the same with an interrupt that waits while interrupts are off",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL")
{
	threshold_signal(THRESHOLD_USER, 60, false);
}

// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/threshold_signal.h"

TEST(ptrace_signal_kernel, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim =
	     "the same where the kernel's branches are recorded too, so that thresholds come in calls and switches",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL")
{
	threshold_signal(THRESHOLD_KERNEL, 40, true);
}

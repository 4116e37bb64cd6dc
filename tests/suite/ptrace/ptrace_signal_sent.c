// SPDX-License-Identifier: MIT
#include "tests/lib/threshold_signal.h"

#include "tests/framework/test.h"

TEST(ptrace_signal_sent, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim = "the same where the buffer's signal is sent to the tracee: it stops at the threshold "
	      "because that is about to act",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL_TRACEE")
{
	threshold_signal(THRESHOLD_SENT, 60, true);
}

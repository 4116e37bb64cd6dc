// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/threshold_signal.h"

TEST(ptrace_signal_nmi, .group = "I", .ids = "I6 I7", .needs = NEED_BTS,
     .claim =
	     "processes stop at the thresholds of their traces, once a crossing; no branch is lost or comes twice",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL")
{
	threshold_signal(THRESHOLD_USER, 60, true);
}

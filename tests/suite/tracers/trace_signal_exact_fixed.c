// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/signal.h"

TEST(trace_signal_exact_fixed, .group = "tracers", .ids = "T10", .needs = NEED_BTS,
     .claim =
	     "a tracer that is told at its threshold, by a fixed vector, reads each branch once, whatever its ring",
     .source = "docs/design.md#overflow")
{
	signal_exact(false);
}

// SPDX-License-Identifier: MIT
#include "kernel/sched/sched.h"
#include "tests/framework/test.h"
#include "tests/lib/crossing.h"

static void yield(struct tracer *tracer)
{
	(void)tracer;
	task_yield();
}

TEST(trace_signal_in_switch, .group = "tracers", .ids = "C4 T10", .needs = NEED_BTS,
     .claim =
	     "a tracer's threshold that is crossed inside a context switch loses and doubles nothing",
     .source = "docs/design.md#overflow")
{
	crossing_walks(yield);
}

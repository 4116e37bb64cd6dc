// SPDX-License-Identifier: MIT
#include "kernel/trace/context.h"
#include "tests/framework/test.h"
#include "tests/lib/crossing.h"

static unsigned wrong;

/* What the call itself finds it also says. */
static void ask(struct tracer *tracer)
{
	struct trace_status status;

	trace_status(tracer, &status);
	wrong += status.held != (status.available >= tracer->options.threshold);
	wrong += status.lost || status.truncated;
}

TEST(trace_signal_in_own_call, .group = "tracers", .ids = "T10", .needs = NEED_BTS,
     .claim =
	     "a tracer's threshold that is crossed inside a call of its interface loses and doubles nothing",
     .source = "docs/design.md#overflow")
{
	wrong = 0;
	crossing_walks(ask);
	EXPECT_EQ(wrong, 0);
}

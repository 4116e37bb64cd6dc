// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/trace/trace.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

TEST(selftest_hang_traced, .group = "selftest", .ids = "", .needs = NEED_SELFTEST | NEED_BTS,
     .claim = "a traced test that hangs with interrupts off is ended by the watchdog's NMI: FAIL",
     .source = "docs/design.md#deadlines")
{
	struct trace_options options = walker_options(1024);
	struct tracer *tracer;

	options.overflow = TRACE_WRAP;
	EXPECT_EQ(trace_attach(current_task(), &options, &tracer), 0);
	__asm__ volatile("cli");
	for (;;)
		__asm__ volatile("pause");
}

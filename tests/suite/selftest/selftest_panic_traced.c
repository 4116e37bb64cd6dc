// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/trace/trace.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

TEST(selftest_panic_traced, .group = "selftest", .ids = "", .needs = NEED_SELFTEST | NEED_BTS,
     .claim = "a panic in a traced task prints registers, backtrace and the newest 32 branches",
     .source = "docs/design.md#last-branches-in-a-panic")
{
	struct trace_options options = walker_options(1024);
	struct tracer *tracer;

	options.overflow = TRACE_WRAP;
	EXPECT_EQ(trace_attach(current_task(), &options, &tracer), 0);
	interrupts_save(); /* as with a spinlock held: the end of one test is not enough */
	chain_walk(&chain_a, 40);
	__asm__ volatile("ud2");
}

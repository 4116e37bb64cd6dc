// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/trace/context.h"
#include "tests/framework/test.h"

TEST(selftest_hang_traced, .group = "selftest", .ids = "", .needs = NEED_SELFTEST | NEED_BTS,
     .claim = "a traced test that hangs with interrupts off is ended by the watchdog's NMI: FAIL",
     .source = "design 3, watchdog")
{
	const struct trace_options options = {.overflow = DS_O_WRAP, .records = 1024};
	struct trace_context *context;

	EXPECT_EQ(trace_attach(current_task(), &options, &context), 0);
	__asm__ volatile("cli");
	for (;;)
		__asm__ volatile("pause");
}

// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/trace/context.h"
#include "tests/framework/test.h"
#include "tests/lib/chain.h"

TEST(selftest_panic_traced, .group = "selftest", .ids = "", .needs = NEED_SELFTEST | NEED_BTS,
     .claim = "a panic in a traced task prints registers, backtrace and the newest 32 branches",
     .source = "design 3: how did I get here")
{
	const struct trace_options options = {.overflow = DS_O_WRAP, .records = 1024};
	struct trace_context *context;

	EXPECT_EQ(trace_attach(current_task(), &options, &context), 0);
	chain_walk(&chain_a, 40);
	__asm__ volatile("ud2");
}

// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

TEST(trace_refused_without_bts, .group = "tracers", .ids = "", .needs = NEED_NO_DS,
     .claim = "where there is no Debug Store no tracer of a task or a CPU is to be had: -ENODEV",
     .source = "kernel/trace/trace.h")
{
	const struct trace_options options = walker_options(64);
	struct tracer *tracer = NULL;

	EXPECT_EQ(trace_attach(current_task(), &options, &tracer), -ENODEV);
	EXPECT_EQ(trace_attach_cpu(0, &options, &tracer), -ENODEV);
	EXPECT_EQ(trace_attach_all_cpus(&options, &tracer), -ENODEV);
	EXPECT(!tracer && !current_task()->trace);
}

// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/sched/task.h"
#include "kernel/silicon.h"
#include "kernel/trace/trace.h"
#include "lib/string.h"
#include "tests/framework/needs.h"
#include "tests/framework/test.h"

TEST(bts_reported_missing_without_ds, .group = "E", .ids = "E2", .needs = NEED_NO_DS,
     .claim = "where DS is not enumerated BTS is reported missing, and a request for it is refused",
     .source = "SDM Vol 3, 17.4.9: CPUID.1:EDX[21] says that the MSR exists")
{
	struct trace_options wanted = {.size = 64 * sizeof(struct ptrace_bts_record)};
	struct tracer *tracer = NULL;

	EXPECT(!ds_present());
	EXPECT(!strcmp(silicon_name(), "none"));
	EXPECT(needs_missing(NEED_BTS) != NULL);
	EXPECT(needs_missing(NEED_DS) != NULL);
	EXPECT_EQ(trace_attach(current_task(), &wanted, &tracer), -ENODEV);
	EXPECT(!tracer);
}

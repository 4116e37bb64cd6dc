// SPDX-License-Identifier: MIT
#include "drivers/ds/ds.h"
#include "kernel/trace/trace.h"
#include "tests/lib/programs.h"

TEST(ptrace_exact_user, .group = "I", .ids = "P5", .needs = NEED_BTS,
     .claim = "over system calls, interrupts, faults and signals a tracer sees exactly the "
	      "branches of ring 3, and no kernel address",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_USER")
{
	program_expect("ptrace_exact", test_scaled(20) << 8 | (ds_caps()->filters ? 0 : 2), false);
}

TEST(ptrace_exact_kernel, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "a tracer with the right to kernel addresses sees the kernel's branches and the "
	      "transitions as well, none missing, and the same of ring 3",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_KERNEL")
{
	program_expect("ptrace_exact", test_scaled(20) << 8 | 1, true);
}

TEST(ptrace_exact_software, .group = "I", .ids = "P4 P5", .needs = NEED_BTS,
     .claim = "without DS-CPL a tracer sees exactly the branches of ring 3 too",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SOFTWARE")
{
	trace_filter_in_software(true);
	program_expect("ptrace_exact", test_scaled(10) << 8 | 2, false);
	trace_filter_in_software(false);
}

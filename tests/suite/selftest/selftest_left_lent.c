// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "tests/framework/test.h"

TEST(selftest_left_lent, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that keeps the debug MSRs is a FAIL", .source = "docs/design.md#verdicts")
{
	preemption_disable();
	EXPECT_EQ(ds_checkout(&this_cpu()->ds), 0);
}

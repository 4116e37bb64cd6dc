// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"

TEST(selftest_hang, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that hangs with interrupts on is ended by the timer: FAIL",
     .source = "docs/design.md#deadlines")
{
	for (;;)
		__asm__ volatile("pause");
}

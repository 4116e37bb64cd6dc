// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"

TEST(selftest_hang_interrupts_off, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that hangs with interrupts off is ended by the watchdog's NMI: FAIL",
     .source = "docs/design.md#deadlines")
{
	__asm__ volatile("cli");
	for (;;)
		__asm__ volatile("pause");
}

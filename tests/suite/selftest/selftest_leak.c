// SPDX-License-Identifier: MIT
#include "kernel/mm/page.h"
#include "tests/framework/test.h"

TEST(selftest_leak, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that keeps memory is a FAIL", .source = "docs/design.md#verdicts")
{
	EXPECT(page_alloc() != 0);
}

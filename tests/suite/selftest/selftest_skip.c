// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"

TEST(selftest_skip, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that finds out while it runs that something is missing is a SKIP",
     .source = "docs/design.md#verdicts")
{
	test_skip("the moon is not full");
}

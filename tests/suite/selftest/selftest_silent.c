// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"

TEST(selftest_silent, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that checks and observes nothing is an ERROR",
     .source = "docs/design.md#verdicts")
{
	test_note("nothing is checked here");
}

// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"

TEST(selftest_error, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that cannot do its work is an ERROR", .source = "docs/design.md#verdicts")
{
	EXPECT_EQ(sizeof(uint64_t), 8);
	test_error("on purpose: %d", 42);
}

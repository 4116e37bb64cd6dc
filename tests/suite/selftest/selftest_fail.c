// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"

TEST(selftest_fail, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a check that does not hold is a FAIL and shows both values",
     .source = "docs/design.md#verdicts")
{
	volatile uint64_t two = 2;

	EXPECT_EQ(two + two, 5);
	REQUIRE(two == 3);
	test_error("a REQUIRE that failed let the test go on");
}

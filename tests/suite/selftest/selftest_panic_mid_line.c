// SPDX-License-Identifier: MIT
#include "kernel/console.h"
#include "kernel/panic.h"
#include "tests/framework/test.h"

TEST(selftest_panic_mid_line, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a panic in the middle of a line begins one of its own", .source = "docs/console.md")
{
	printk("# half a line, and then");
	panic("in the middle of a line");
}

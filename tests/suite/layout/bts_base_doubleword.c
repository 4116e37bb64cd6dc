// SPDX-License-Identifier: MIT
#include "tests/lib/aligned.h"

/* The manual allows it, no system is known to do it: measured, not required. */
TEST(bts_base_doubleword, .group = "L", .ids = "L3", .needs = NEED_BTS,
     .claim = "a buffer that begins at an odd multiple of 4 makes the processor write nowhere else",
     .source = "SDM Vol 3, 17.4.9: natural doubleword boundary")
{
	test_observe("right_at_4", "%zu_of_%d", aligned_right(4), ALIGNED_BRANCHES);
	test_observe("right_at_60", "%zu_of_%d", aligned_right(60), ALIGNED_BRANCHES);
	test_observe("right_at_4092", "%zu_of_%d", aligned_right(4092), ALIGNED_BRANCHES);
}

// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/hand_over.h"

TEST(bts_switch_hand_over_fixed, .group = "C", .ids = "T10 C4", .needs = NEED_BTS,
     .claim =
	     "the threshold's interrupt, by a fixed vector, hands a task's records over: none lost, none twice",
     .source = "docs/design.md#interrupt-at-the-threshold; SDM Vol 3, 17.4.9.5")
{
	hand_over_walks(false);
}

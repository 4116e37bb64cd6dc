// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/at_switch.h"

TEST(bts_switch_pending_fixed, .group = "C", .ids = "C4 T10", .needs = NEED_BTS,
     .claim =
	     "a threshold reached on the way through a switch loses no branch: a fixed vector that pends across the switch",
     .source = "docs/design.md#ownership; SDM Vol 3, 17.4.9.5")
{
	threshold_at_switch(false);
}

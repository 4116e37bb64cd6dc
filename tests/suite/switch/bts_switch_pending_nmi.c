// SPDX-License-Identifier: MIT
// An interrupt that the old task's buffer raised can arrive when the new task's is loaded: a
// handler that looks at the loaded area finds nothing, and the old buffer overflows later without
// another interrupt. Passing means: the switch itself notices, and no branch is missing or doubled.
#include "tests/framework/test.h"
#include "tests/lib/at_switch.h"

TEST(bts_switch_pending_nmi, .group = "C", .ids = "C4 T10", .needs = NEED_BTS,
     .claim =
	     "a threshold reached on the way through a switch loses no branch: an NMI in the scheduler",
     .source = "docs/design.md#ownership; SDM Vol 3, 17.4.9.5")
{
	threshold_at_switch(true);
}

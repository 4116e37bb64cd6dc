// SPDX-License-Identifier: MIT
#include "tests/lib/drain.h"

TEST(bts_threshold_drain_fixed, .group = "T", .ids = "T10", .needs = NEED_BTS,
     .claim = "a fixed-vector handler that empties the buffer loses no branch and gets none twice",
     .source = "SDM Vol 3, 17.4.9.5: duties of the handler")
{
	drain_walks(PMI_FIXED);
}

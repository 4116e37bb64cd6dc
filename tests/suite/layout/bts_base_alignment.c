// SPDX-License-Identifier: MIT
#include "tests/lib/aligned.h"

TEST(bts_base_alignment, .group = "L", .ids = "L3", .needs = NEED_BTS,
     .claim = "a buffer may begin at any multiple of 64 or of 8",
     .source = "SDM Vol 3, 17.4.9 and 17.4.9.2: doubleword boundary, cache line recommended")
{
	static const size_t offsets[] = {0, 64, 192, 8, 16, 24, 56, 4096 - 64, 4096 - 8};

	for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
		EXPECT_EQ(aligned_right(offsets[i]), ALIGNED_BRANCHES);
}

// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/skid.h"

TEST(bts_threshold_skid, .group = "T", .ids = "T2", .needs = NEED_BTS,
     .claim = "the interrupt never comes before the threshold, and before the buffer is full",
     .source = "SDM Vol 3, 17.4.9: BTS interrupt threshold")
{
	size_t runs = test_scaled(200);
	struct skid skid;

	skid_measure(&skid, runs < SKID_MOST ? runs : SKID_MOST);
	test_observe("skid_at_first_read", "%lu/%lu/%lu", skid.read.least, skid.read.median,
		     skid.read.most);
	test_observe("skid_of_interrupt", "%lu/%lu/%lu", skid.recorded.least, skid.recorded.median,
		     skid.recorded.most);
	EXPECT_EQ(skid.missing, 0);
	EXPECT_EQ(skid.early, 0);
	EXPECT(skid.read.most < SKID_ROOM);
}

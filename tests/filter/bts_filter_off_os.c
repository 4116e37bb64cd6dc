// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/off.h"
#include "tests/lib/rig.h"

TEST(bts_filter_off_os, .group = "P", .ids = "P1", .needs = NEED_BTS | NEED_DSCPL,
     .claim = "BTS_OFF_OS leaves out every branch inside the kernel and none of ring 3",
     .source = "SDM Vol 3, 17.4.8, CPL-qualified branch trace")
{
	struct sight sight = off_trace(rig_all() | ds_configuration->off_os);

	chain_expect_walks(&sight.user, OFF_WALKS, "ring 3");
	EXPECT_EQ(sight.exits, OFF_WALKS);
	EXPECT_EQ(sight.in_kernel, 0);
	test_observe("transitions_of_each_round", "%lu", sight.between / OFF_WALKS);
}

// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/off.h"
#include "tests/lib/rig.h"

TEST(bts_filter_off_usr, .group = "P", .ids = "P2", .needs = NEED_BTS | NEED_DSCPL,
     .claim = "BTS_OFF_USR leaves out every branch inside ring 3 and none of the kernel",
     .source = "SDM Vol 3, 17.4.8, CPL-qualified branch trace")
{
	struct sight sight = off_trace(rig_all() | ds_configuration->off_usr);

	chain_expect_walks(&sight.kernel, OFF_WALKS, "kernel");
	EXPECT_EQ(sight.in_user, 0);
	test_observe("transitions_of_each_round", "%lu", sight.between / OFF_WALKS);
}

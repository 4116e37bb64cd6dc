// SPDX-License-Identifier: MIT
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/circular.h"
#include "tests/lib/exact.h"

/* "at end" is one byte below the least size that the manual allows; see W2 for which one counts. */
TEST(bts_wrap_one_slot, .group = "W", .ids = "W5", .needs = NEED_BTS,
     .claim = "a buffer of one slot holds the last branch, and nothing else is written",
     .source = "SDM Vol 3, 17.4.9: BTS absolute maximum")
{
	const struct calibration *c = calibration();
	struct rig rig;

	if (c->unused)
		test_skip("this silicon leaves the last slot unused whatever the maximum");
	rig_open(&rig, 4);
	rig_shorten(&rig, 1, maximum_extra(c->maximum));
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, 100);
	circular_expect(&rig, 1, &chain_a, 100);
	rig_close(&rig);
}

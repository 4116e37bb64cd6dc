// SPDX-License-Identifier: MIT
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/circular.h"
#include "tests/lib/exact.h"

#define SLOTS 16

TEST(bts_wrap_first_slot, .group = "W", .ids = "W3", .needs = NEED_BTS,
     .claim = "one branch more than slots overwrites slot 0 and leaves the index behind it",
     .source = "SDM Vol 3, 17.4.9.1 and 17.4.4")
{
	size_t capacity = SLOTS - (CALIBRATION_SLOTS - calibration()->used_at_end);
	struct rig rig;

	rig_open(&rig, 2 * SLOTS);
	rig_shorten(&rig, SLOTS, 0);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, capacity + 1);
	EXPECT_EQ(rig_index(&rig), rig.base + rig.record);
	circular_expect(&rig, capacity, &chain_a, capacity + 1);
	rig_close(&rig);
}

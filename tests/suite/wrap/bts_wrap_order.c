// SPDX-License-Identifier: MIT
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/circular.h"
#include "tests/lib/exact.h"

#define SLOTS 64

TEST(bts_wrap_order, .group = "W", .ids = "W4", .needs = NEED_BTS,
     .claim = "after many rounds the buffer holds the newest branches, in order from the index on",
     .source = "SDM Vol 3, 17.4.4")
{
	size_t capacity = SLOTS - (CALIBRATION_SLOTS - calibration()->used_at_end);
	uint64_t n = 10 * capacity + 3;
	struct rig rig;

	rig_open(&rig, SLOTS + 4);
	rig_shorten(&rig, SLOTS, 0);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, n);
	circular_expect(&rig, capacity, &chain_a, n);
	rig_close(&rig);
}

// SPDX-License-Identifier: MIT
#include "tests/lib/chain.h"
#include "tests/lib/exact.h"

#define SLOTS 16

TEST(bts_wrap_half, .group = "W", .ids = "W1", .needs = NEED_BTS,
     .claim = "half as many branches as slots move the index half way and leave the rest alone",
     .source = "SDM Vol 3, 17.4.9: BTS index")
{
	struct rig rig;

	rig_open(&rig, SLOTS);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, SLOTS / 2);
	EXPECT_EQ(rig_index(&rig), rig.base + SLOTS / 2 * rig.record);
	chain_expect(&rig, 0, SLOTS / 2, &chain_a, SLOTS / 2, 0);
	for (size_t slot = SLOTS / 2; slot < SLOTS; slot++)
		EXPECT_EQ(rig_record(&rig, slot).qualifier, BTS_INVALID);
	rig_close(&rig);
}

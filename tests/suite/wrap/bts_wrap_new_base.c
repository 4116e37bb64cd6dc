/* SPDX-License-Identifier: MIT */
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/circular.h"
#include "tests/lib/exact.h"

#define SLOTS 16
#define MOVED 5
#define N     (3 * SLOTS + 1)

/* Once round the whole buffer first, so that the base has been used before it changes. */
TEST(bts_wrap_new_base, .group = "W", .ids = "W4", .needs = NEED_BTS,
     .claim = "the index wraps to what the base holds then, IA32_DS_AREA being written only before",
     .source = "SDM Vol 3, 17.4.9: BTS buffer base")
{
	const struct calibration *c = calibration();
	struct rig rig, moved;

	rig_open(&rig, SLOTS + 4);
	rig_shorten(&rig, SLOTS, maximum_extra(c->maximum));
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, N);
	circular_expect(&rig, SLOTS - c->unused, &chain_a, N);
	rig_shorten(&rig, SLOTS, maximum_extra(c->maximum));
	moved = rig;
	moved.base += MOVED * rig.record;
	moved.slots -= MOVED;
	ds_set(rig.area, DS_BTS_BUFFER_BASE, moved.base);
	ds_set(rig.area, DS_BTS_INDEX, moved.base);
	chain_trace(&moved, rig_all(), &chain_a, N);
	circular_expect(&moved, SLOTS - MOVED - c->unused, &chain_a, N);
	ds_set(rig.area, DS_BTS_BUFFER_BASE, rig.base);
	for (size_t slot = 0; slot < MOVED; slot++)
		EXPECT_EQ(rig_record(&rig, slot).from, 0);
	rig_close(&rig);
}

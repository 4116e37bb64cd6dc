// SPDX-License-Identifier: MIT
#include "tests/lib/chain.h"
#include "tests/lib/circular.h"
#include "tests/lib/exact.h"

#define SLOTS 16

/* Erratum P79 of 64-bit Xeons: a record may cross a maximum that is no multiple of its size. */
TEST(bts_wrap_maximum_minus_one, .group = "W", .ids = "W7", .needs = NEED_BTS,
     .claim = "a maximum inside a slot lets no more than that one slot be written past it",
     .source = "SDM Vol 3, 17.4.9; erratum P79")
{
	struct rig rig;
	size_t used;

	rig_open(&rig, SLOTS + 8);
	rig_shorten(&rig, SLOTS, (uint64_t)-1);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, 2 * SLOTS);
	used = rig_used(&rig);
	test_observe("wrap_capacity_minus_one", "n%s", used == SLOTS ? "" : "-1");
	test_observe("wrap_crosses_maximum", "%d", used == SLOTS);
	EXPECT(used == SLOTS - 1 || used == SLOTS);
	circular_expect(&rig, used, &chain_a, 2 * SLOTS);
	rig_close(&rig);
}

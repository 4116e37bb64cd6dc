// SPDX-License-Identifier: MIT
// There are two conventions for the absolute maximum. The SDM and EDK2 put it one byte past a
// multiple of the record size, every Linux at the multiple itself. If silicon compares with >=, one
// of them overruns or wastes a slot. Passing means: the SDM's form uses all slots and nothing past
// them is written.
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/circular.h"
#include "tests/lib/exact.h"

#define SLOTS 16

TEST(bts_wrap_maximum_plus_one, .group = "W", .ids = "W6", .needs = NEED_BTS,
     .claim = "with the maximum one byte above a multiple of the record size all slots are used",
     .source = "SDM Vol 3, 17.4.9: \"a multiple of the BTS record size (12 bytes) plus 1\"")
{
	const struct calibration *c = calibration();
	size_t capacity = SLOTS + c->used_at_end_plus_1 - CALIBRATION_SLOTS;
	struct rig rig;

	test_observe("wrap_capacity_plus_one", "n%s", capacity > SLOTS ? "+1" : "");
	test_observe("wrap_overrun_plus_one", "%d", capacity > SLOTS);
	REQUIRE(capacity == SLOTS || capacity == SLOTS + 1);
	rig_open(&rig, SLOTS + 8);
	rig_shorten(&rig, SLOTS, 1);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, 3 * SLOTS);
	circular_expect(&rig, capacity, &chain_a, 3 * SLOTS);
	rig_close(&rig);
}

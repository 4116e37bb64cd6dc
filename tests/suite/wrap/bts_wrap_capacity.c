// SPDX-License-Identifier: MIT
// The SDM does not say whether the index wraps after a record or before the next one. The self-test
// of Linux 2.6.32 accepted any index from base to maximum for that reason. Passing means: all
// slots, or all but one, are used; the log says which, and the other tests of this group rely on
// what was measured.
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/circular.h"
#include "tests/lib/exact.h"

#define SLOTS 16

static void check(struct rig *rig, size_t capacity, uint64_t n)
{
	rig_shorten(rig, SLOTS, 0);
	EXACTLY (rig)
		chain_trace(rig, rig_all(), &chain_a, n);
	circular_expect(rig, capacity, &chain_a, n);
}

TEST(bts_wrap_capacity, .group = "W", .ids = "W2", .needs = NEED_BTS,
     .claim = "with the maximum at the end all slots, or all but one, are used before the wrap",
     .source = "SDM Vol 3, 17.4.9: BTS absolute maximum")
{
	const struct calibration *c = calibration();
	size_t unused = CALIBRATION_SLOTS - c->used_at_end, capacity = SLOTS - unused;
	struct rig rig;

	REQUIRE(unused <= 1);
	test_observe("wrap_capacity", "n%s", unused ? "-1" : "");
	test_observe("wrap_index_after_last", "%s", index_after_last_name(c->index_after_last));
	EXPECT(c->index_after_last != INDEX_OTHER);
	rig_open(&rig, 2 * SLOTS);
	rig_shorten(&rig, SLOTS, 0);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, SLOTS - 2);
	EXPECT_EQ(rig_index(&rig), rig.base + (SLOTS - 2) * rig.record);
	check(&rig, capacity, SLOTS - 1);
	check(&rig, capacity, SLOTS);
	rig_close(&rig);
}

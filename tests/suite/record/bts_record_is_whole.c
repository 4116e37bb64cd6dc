// SPDX-License-Identifier: MIT
#include "lib/string.h"
#include "tests/lib/chain.h"
#include "tests/lib/exact.h"

#define BRANCHES 6

/* The flags of the records, stored over `filling`. */
static void trace(struct rig *rig, uint8_t filling, uint64_t flags[BRANCHES])
{
	EXACTLY (rig) {
		memset((void *)rig->base, filling, 2 * BRANCHES * rig->record);
		chain_trace(rig, rig_all(), &chain_a, BRANCHES);
	}
	EXPECT_EQ(rig_count(rig), BRANCHES);
	chain_expect(rig, 0, BRANCHES, &chain_a, BRANCHES, 0);
	for (size_t slot = 0; slot < BRANCHES; slot++)
		flags[slot] = rig_record(rig, slot).flags;
	for (const uint8_t *at = (uint8_t *)rig->base + BRANCHES * rig->record;
	     at < (uint8_t *)rig->base + 2 * BRANCHES * rig->record; at++)
		EXPECT_EQ(*at, filling);
}

/* What stood there before must not shine through; the predicted flag may differ of itself. */
TEST(bts_record_is_whole, .group = "R", .ids = "R1", .needs = NEED_BTS,
     .claim = "a record overwrites all of its slot, the flags too, and no byte of the next",
     .source = "SDM Vol 3, 17.4.9.1 and figure 17-9")
{
	const uint64_t predicted = 1ull << 4;
	uint64_t first[BRANCHES], second[BRANCHES];
	struct rig rig;

	rig_open(&rig, 2 * BRANCHES);
	trace(&rig, 0xff, first);
	trace(&rig, 0x00, second);
	for (size_t i = 0; i < BRANCHES; i++)
		EXPECT_EQ(first[i] & ~predicted, second[i] & ~predicted);
	rig_close(&rig);
}

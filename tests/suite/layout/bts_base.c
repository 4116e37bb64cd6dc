// SPDX-License-Identifier: MIT
/* Whether a buffer works that begins `offset` bytes behind the start of a page. */
#include "tests/lib/chain.h"
#include "tests/lib/exact.h"
#include "tests/lib/rig.h"

#define ALIGNED_BRANCHES 24

/*
 * Traces so many branches into such a buffer and returns how many of the first records are right.
 * Fails the test if anything around the buffer was written.
 */
static size_t aligned_right(size_t offset)
{
	struct rig rig;
	size_t right = 0;

	rig_open_at(&rig, 2 * ALIGNED_BRANCHES, offset);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, ALIGNED_BRANCHES);
	if (rig_index(&rig) == rig.base + ALIGNED_BRANCHES * rig.record)
		for (; right < ALIGNED_BRANCHES; right++) {
			struct bts_struct record = rig_record(&rig, right);
			struct branch branch = chain_branch(&chain_a, ALIGNED_BRANCHES, right);

			if (record.from != branch.from || record.to != branch.to)
				break;
		}
	rig_close(&rig);
	return right;
}

TEST(bts_base_alignment, .group = "L", .ids = "L3", .needs = NEED_BTS,
     .claim = "a buffer may begin at any multiple of 64 or of 8",
     .source = "SDM Vol 3, 17.4.9 and 17.4.9.2: doubleword boundary, cache line recommended")
{
	static const size_t offsets[] = {0, 64, 192, 8, 16, 24, 56, 4096 - 64, 4096 - 8};

	for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
		EXPECT_EQ(aligned_right(offsets[i]), ALIGNED_BRANCHES);
}

/* The manual allows it, no system is known to do it: measured, not required. */
TEST(bts_base_doubleword, .group = "L", .ids = "L3", .needs = NEED_BTS,
     .claim = "a buffer that begins at an odd multiple of 4 makes the processor write nowhere else",
     .source = "SDM Vol 3, 17.4.9: natural doubleword boundary")
{
	test_observe("right_at_4", "%zu_of_%d", aligned_right(4), ALIGNED_BRANCHES);
	test_observe("right_at_60", "%zu_of_%d", aligned_right(60), ALIGNED_BRANCHES);
	test_observe("right_at_4092", "%zu_of_%d", aligned_right(4092), ALIGNED_BRANCHES);
}

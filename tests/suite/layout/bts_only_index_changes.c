// SPDX-License-Identifier: MIT
#include "lib/string.h"
#include "tests/lib/chain.h"
#include "tests/lib/exact.h"

#define BRANCHES 7

/* Everything but the four BTS fields: PEBS fields, counter resets, what follows. */
static void fill(struct rig *rig)
{
	for (size_t i = 0x20; i < DS_AREA_SIZE; i++)
		rig->area_page[i] = (uint8_t)(i * 7 + 1);
}

TEST(bts_only_index_changes, .group = "L", .ids = "L1", .needs = NEED_BTS,
     .claim = "storing k records adds k times 24 to the BTS index and changes no other byte",
     .source = "SDM Vol 3, 17.4.9.1 and figure 17-8")
{
	uint8_t before[DS_AREA_SIZE];
	struct rig rig;

	rig_open(&rig, 64);
	fill(&rig);
	EXACTLY (&rig) {
		memcpy(before, rig.area_page, sizeof(before));
		chain_trace(&rig, rig_all(), &chain_a, BRANCHES);
	}
	EXPECT_EQ(*(uint64_t *)&rig.area_page[8], rig.base + 24 * BRANCHES);
	for (size_t i = 0; i < DS_AREA_SIZE; i++)
		if (i < 8 || i >= 16)
			EXPECT_EQ(rig.area_page[i], before[i]);
	chain_expect(&rig, 0, BRANCHES, &chain_a, BRANCHES, 0);
	rig_close(&rig);
}

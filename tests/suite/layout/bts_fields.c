// SPDX-License-Identifier: MIT
#include "lib/string.h"
#include "tests/lib/chain.h"
#include "tests/lib/rig.h"

#define ONLY_INDEX_CHANGES_BRANCHES 7

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
		chain_trace(&rig, rig_all(), &chain_a, ONLY_INDEX_CHANGES_BRANCHES);
	}
	EXPECT_EQ(*(uint64_t *)&rig.area_page[8], rig.base + 24 * ONLY_INDEX_CHANGES_BRANCHES);
	for (size_t i = 0; i < DS_AREA_SIZE; i++)
		if (i < 8 || i >= 16)
			EXPECT_EQ(rig.area_page[i], before[i]);
	chain_expect(&rig, 0, ONLY_INDEX_CHANGES_BRANCHES, &chain_a, ONLY_INDEX_CHANGES_BRANCHES,
		     0);
	rig_close(&rig);
}

// BTS and PEBS share one DS area, and BTS is often used with the PEBS fields left zero. Passing
// means: BTS records whatever those fields hold, and changes none of them.

#define PEBS_FIELDS_BRANCHES 5
#define PEBS_FIELDS	     (4 * ds_configuration->field_size)
#define PEBS_RECORDS	     2
#define PEBS_RECORD	     256 /* as long as any, or longer */

/* Records with PEBS off and the PEBS half of the DS area as it stands: nothing of that changes. */
static void trace(struct rig *rig)
{
	uint8_t before[DS_AREA_SIZE];

	EXACTLY (rig) {
		memcpy(before, rig->area_page, sizeof(before));
		chain_trace(rig, rig_all(), &chain_a, PEBS_FIELDS_BRANCHES);
	}
	chain_expect(rig, 0, PEBS_FIELDS_BRANCHES, &chain_a, PEBS_FIELDS_BRANCHES, 0);
	EXPECT(!memcmp(rig->area_page + PEBS_FIELDS, before + PEBS_FIELDS,
		       sizeof(before) - PEBS_FIELDS));
}

TEST(bts_pebs_fields, .group = "B", .ids = "B1 B3", .needs = NEED_BTS,
     .claim =
	     "BTS records with the PEBS fields zero as well as set, and leaves them and their buffer alone",
     .source = "SDM Vol 3, 17.4.9 and figure 17-8")
{
	uint8_t *buffer = test_area(1);
	size_t written = 0;
	struct rig rig;

	rig_open(&rig, 16);
	memset(rig.area_page + PEBS_FIELDS, 0, DS_AREA_SIZE - PEBS_FIELDS);
	trace(&rig);
	rig_reset(&rig);
	ds_set(rig.area, DS_PEBS_BUFFER_BASE, (uint64_t)buffer);
	ds_set(rig.area, DS_PEBS_INDEX, (uint64_t)buffer);
	ds_set(rig.area, DS_PEBS_ABSOLUTE_MAXIMUM,
	       (uint64_t)buffer + PEBS_RECORDS * PEBS_RECORD + 1);
	ds_set(rig.area, DS_PEBS_INTERRUPT_THRESHOLD, (uint64_t)buffer + PEBS_RECORD);
	trace(&rig);
	for (size_t i = 0; i < PEBS_RECORDS * PEBS_RECORD; i++)
		written += buffer[i] != 0;
	EXPECT_EQ(written, 0);
	rig_close(&rig);
}

// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"

extern const char format_from1[], format_from2[], format_to1[], format_to2[];

TEST(bts_record_format, .group = "E", .ids = "E5", .needs = NEED_BTS,
     .claim =
	     "in IA-32e mode a record is three quadwords, from, to and flags, whatever DTES64 says",
     .source = "SDM Vol 3, 17.4.9.1, figure 17-8 and figure 17-9")
{
	const uint64_t *raw;
	struct rig rig;

	rig_open(&rig, 16);
	EXACTLY (&rig)
		TRACED(rig_all(), "format_from1: jmp format_to1\n\tud2\n"
				  "format_to1: nop\n"
				  "format_from2: jmp format_to2\n\tud2\n"
				  "format_to2:\n\t");
	raw = (const uint64_t *)rig.base;
	EXPECT_EQ(rig_index(&rig), rig.base + 48);
	EXPECT_EQ(raw[0], format_from1);
	EXPECT_EQ(raw[1], format_to1);
	EXPECT_EQ(raw[3], format_from2);
	EXPECT_EQ(raw[4], format_to2);
	for (unsigned i = 6; i < 16 * 3; i++)
		EXPECT_EQ(raw[i], 0);
	test_observe("dtes64", "%d", ds_caps()->dtes64);
	test_observe("flags", "%lx", raw[2]);
	rig_close(&rig);
}

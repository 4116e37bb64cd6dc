// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"

extern const char jump_from[], jump_to[];

TEST(bts_jump_addresses, .group = "R", .ids = "R1", .needs = NEED_BTS,
     .claim = "the record of a jump holds the address of the jump and that of its target",
     .source = "SDM Vol 3, 17.4.9 and figure 17-9")
{
	struct rig rig;

	rig_open(&rig, 16);
	EXACTLY (&rig)
		TRACED(rig_all(), "jump_from: jmp jump_to\n\tud2\njump_to:\n\t");
	EXPECT_EQ(rig_count(&rig), 1);
	rig_expect(&rig, 0, jump_from, jump_to, "jmp");
	rig_close(&rig);
}

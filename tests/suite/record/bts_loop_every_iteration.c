// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"

extern const char iteration_top[], iteration_jump[];

TEST(bts_loop_every_iteration, .group = "R", .ids = "R3", .needs = NEED_BTS,
     .claim = "a loop of 100 rounds leaves 99 equal records, none for the branch not taken",
     .source = "SDM Vol 3, 17.4.4: each taken branch")
{
	struct rig rig;

	rig_open(&rig, 128);
	EXACTLY (&rig)
		TRACED(rig_all(), "movl $100, %%ecx\n"
				  "iteration_top: decl %%ecx\n"
				  "iteration_jump: jnz iteration_top\n\t");
	EXPECT_EQ(rig_count(&rig), 99);
	for (size_t slot = 0; slot < 99; slot++)
		rig_expect(&rig, slot, iteration_jump, iteration_top, "jnz");
	EXPECT_EQ(rig_record(&rig, 99).from, 0);
	rig_close(&rig);
}

// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"
#include "tests/lib/pending.h"

extern const char hlt_next[];

TEST(bts_hlt_wake, .group = "K", .ids = "K11", .needs = NEED_BTS,
     .claim =
	     "waking from HLT leaves no record but the interrupt's, from the instruction behind HLT",
     .source = "SDM Vol 3, 17.4.4; SDM Vol 2, HLT: the saved RIP is that of the next instruction")
{
	struct pending pending;
	struct rig rig;

	rig_open(&rig, 1024);
	EXACTLY (&rig) {
		pending_raise(&pending);
		TRACED(rig_all(), "sti\n\thlt\nhlt_next: cli\n\t");
		pending_settle();
	}
	EXPECT_EQ(pending.rip, hlt_next);
	pending_expect_way(&rig, 0, &pending);
	EXPECT_OR_ERRATUM(rig_record(&rig, 0).from == pending.rip, "AAJ122");
	rig_close(&rig);
}

// SPDX-License-Identifier: MIT
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/pmi.h"

TEST(bts_threshold_not_reset, .group = "T", .ids = "T5", .needs = NEED_BTS,
     .claim = "an index left above the threshold interrupts again (level) or not (edge), no storm",
     .source = "SDM Vol 3, 17.4.9.5: \"matches/exceeds\"")
{
	bool level = calibration()->level;
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, 128);
	pmi_take(&pmi);
	rig_set_threshold(&rig, 8);
	chain_trace(&rig, rig_interrupt(), &chain_a, 16);
	pmi_settle();
	EXPECT_EQ(pmi.count, 1);
	for (unsigned more = 1; more <= 5; more++) {
		chain_trace(&rig, rig_interrupt(), &chain_a, 10);
		pmi_settle();
		EXPECT_EQ(pmi.count, level ? 1 + more : 1);
	}
	pmi_settle();
	EXPECT_EQ(pmi.count, level ? 6 : 1);
	EXPECT_EQ(rig_count(&rig), 16 + 5 * 10);
	test_observe("threshold_trigger", "%s", level ? "level" : "edge");
	pmi_release(&pmi);
	rig_close(&rig);
}

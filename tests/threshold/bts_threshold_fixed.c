// SPDX-License-Identifier: MIT
#include "tests/lib/chain.h"
#include "tests/lib/pmi.h"

#define SLOTS	  512
#define THRESHOLD 256

TEST(bts_threshold_fixed, .group = "T", .ids = "T1", .needs = NEED_BTS,
     .claim = "with BTINT one interrupt comes by its fixed vector, with the index at the threshold",
     .source = "SDM Vol 3, 17.4.9.5; 10.5.1, delivery mode fixed")
{
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, SLOTS);
	pmi_take(&pmi);
	rig_set_threshold(&rig, THRESHOLD);
	wrmsr(IA32_DEBUGCTL, rig_interrupt());
	while (!pmi.count && rig_count(&rig) < SLOTS - 1)
		chain_walk(&chain_a, 2);
	wrmsr(IA32_DEBUGCTL, 0);
	pmi_settle();
	EXPECT_EQ(pmi.count, 1);
	EXPECT(pmi.index >= rig.base + THRESHOLD * rig.record);
	EXPECT(pmi.index <= rig.base + SLOTS * rig.record);
	pmi_release(&pmi);
	rig_close(&rig);
}

// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "tests/lib/chain.h"
#include "tests/lib/pmi.h"

static void cross(struct rig *rig)
{
	rig_reset(rig);
	chain_trace(rig, rig_interrupt(), &chain_a, 16);
	pmi_settle();
}

TEST(bts_threshold_left_masked, .group = "T", .ids = "T4", .needs = NEED_BTS,
     .claim = "while the LVT entry is left masked no second interrupt comes, and recording goes on",
     .source = "SDM Vol 3, 17.4.9.5 and 10.5.1: mask")
{
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED, .keep_masked = true};

	rig_open(&rig, 64);
	pmi_take(&pmi);
	rig_set_threshold(&rig, 8);
	cross(&rig);
	EXPECT_EQ(pmi.count, 1);
	cross(&rig);
	EXPECT_EQ(pmi.count, 1);
	EXPECT_EQ(rig_count(&rig), 16);
	chain_expect(&rig, 0, 16, &chain_a, 16, 0);

	lapic_unmask_lvtpc();
	pmi_settle();
	test_observe("masked_interrupt_comes_later", "%d", pmi.count == 2);
	pmi.count = 0;
	lapic_unmask_lvtpc();
	cross(&rig);
	EXPECT_EQ(pmi.count, 1);
	pmi_release(&pmi);
	rig_close(&rig);
}

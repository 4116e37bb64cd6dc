// SPDX-License-Identifier: MIT
// The local APIC masks the LVT entry when it delivers a PMI. A handler that does not clear the mask
// gets one interrupt in its life and a buffer that stays full. Passing means: delivery masks the
// entry, and clearing the mask lets the next crossing interrupt.
#include "drivers/apic/lapic.h"
#include "tests/lib/chain.h"
#include "tests/lib/pmi.h"

static void cross(struct rig *rig)
{
	rig_reset(rig);
	chain_trace(rig, rig_interrupt(), &chain_a, 16);
	pmi_settle();
}

TEST(bts_threshold_masks, .group = "T", .ids = "T3", .needs = NEED_BTS,
     .claim =
	     "delivery masks the LVT entry, and clearing the mask lets the next crossing interrupt",
     .source = "SDM Vol 3, 10.5.1 and 17.4.9.5: mask")
{
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, 64);
	pmi_take(&pmi);
	rig_set_threshold(&rig, 8);
	EXPECT(!(lapic_read_lvtpc() & LVT_MASKED));
	for (unsigned crossing = 1; crossing <= 3; crossing++) {
		cross(&rig);
		EXPECT_EQ(pmi.count, crossing);
		EXPECT(pmi.lvtpc & LVT_MASKED);
		EXPECT(!(lapic_read_lvtpc() & LVT_MASKED));
		EXPECT_EQ(pmi.lvtpc & LVT_VECTOR_MASK, PMI_VECTOR);
	}
	pmi_release(&pmi);
	rig_close(&rig);
}

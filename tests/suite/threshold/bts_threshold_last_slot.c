// SPDX-License-Identifier: MIT
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/circular.h"
#include "tests/lib/pmi.h"

#define SLOTS 16

TEST(bts_threshold_last_slot, .group = "T", .ids = "T8", .needs = NEED_BTS,
     .claim = "a threshold at the last slot interrupts when that slot is reached, not before",
     .source = "SDM Vol 3, 17.4.9: BTS interrupt threshold")
{
	const struct calibration *c = calibration();
	size_t capacity = SLOTS - c->unused;
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, 2 * SLOTS);
	pmi_take(&pmi);
	rig_shorten(&rig, SLOTS, maximum_extra(c->maximum));
	rig_set_threshold(&rig, capacity - 1);
	chain_trace(&rig, rig_interrupt(), &chain_a, capacity - 2);
	pmi_settle();
	EXPECT_EQ(pmi.count, 0);
	rig_reset(&rig);
	chain_trace(&rig, rig_interrupt(), &chain_a, capacity - 1);
	pmi_settle();
	test_observe("interrupts_when_index_meets", "%u", pmi.count);
	pmi.count = 0;
	rig_reset(&rig);
	chain_trace(&rig, rig_interrupt(), &chain_a, capacity);
	pmi_settle();
	EXPECT_EQ(pmi.count, 1);
	pmi_release(&pmi);
	rig_close(&rig);
}

// SPDX-License-Identifier: MIT
#include "tests/lib/calibration.h"
#include "tests/lib/pmi.h"

/*
 * Silicon that interrupts on the crossing only, and compares after the index moved on, never sees
 * the index below this threshold: there, and only there, none is accepted.
 */
TEST(bts_threshold_first_slot, .group = "T", .ids = "T8", .needs = NEED_BTS,
     .claim = "a threshold at the base interrupts at the first record",
     .source = "SDM Vol 3, 17.4.9: BTS interrupt threshold")
{
	bool level = calibration()->level;
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, 16);
	pmi_take(&pmi);
	rig_set_threshold(&rig, 0);
	TRACED(rig_interrupt(), "nop");
	pmi_settle();
	EXPECT_EQ(pmi.count, 0);
	TRACED(rig_interrupt(), "jmp 1f\n\tud2\n1:\n\t");
	pmi_settle();
	test_observe("interrupts_at_first_slot", "%u", pmi.count);
	EXPECT(pmi.count == 1 || (!level && !pmi.count));
	EXPECT_EQ(rig_count(&rig), 1);
	pmi_release(&pmi);
	rig_close(&rig);
}

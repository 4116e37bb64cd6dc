// SPDX-License-Identifier: MIT
#include "tests/lib/pmi.h"

#define SLOTS	  512
#define THRESHOLD 256

TEST(bts_threshold_fixed, .group = "T", .ids = "T1", .needs = NEED_BTS,
     .claim = "with BTINT one interrupt comes by its fixed vector, with the index at the threshold",
     .source = "SDM Vol 3, 17.4.9.5 and 10.5.1: delivery mode fixed")
{
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, SLOTS);
	pmi_take(&pmi);
	pmi_cross(&pmi, THRESHOLD, SLOTS);
	pmi_release(&pmi);
	rig_close(&rig);
}

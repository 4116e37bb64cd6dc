// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"
#include "tests/lib/msr_trial.h"

#define LBR 1ull

extern const char lbr_from[], lbr_to[];

/* Core processors cannot have TR and LBR at once: what the LBR stack then holds is not asked. */
TEST(bts_tr_with_lbr, .group = "M", .ids = "M8", .needs = NEED_BTS,
     .claim = "LBR, where it can be set besides TR and BTS, does not disturb the records",
     .source =
	     "SDM Vol 3, 17.4.4: not both on P6 to Core, both on NetBurst, Atom, Nehalem and later")
{
	struct msr_trial trial;
	struct rig rig;

	rig_open(&rig, 16);
	trial = msr_try(IA32_DEBUGCTL, rig_all() | LBR, 0);
	test_observe("tr_with_lbr", "%s", msr_trial_word(&trial, LBR));
	if (trial.refused)
		EXPECT_EQ(trial.read_back, 0);
	else
		EXPECT_EQ(trial.read_back & ~(rig_all() | LBR), 0);
	if ((trial.read_back & rig_all()) == rig_all()) {
		EXACTLY (&rig)
			TRACED(rig_all() | LBR, "lbr_from: jmp lbr_to\n\tud2\nlbr_to:\n\t");
		EXPECT_EQ(rig_count(&rig), 1);
		rig_expect(&rig, 0, lbr_from, lbr_to, "jmp");
	}
	rig_close(&rig);
}

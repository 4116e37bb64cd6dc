// SPDX-License-Identifier: MIT
#include "tests/lib/msr_trial.h"
#include "tests/lib/rig.h"

TEST(bts_control_bits_hold, .group = "M", .ids = "M2", .needs = NEED_BTS,
     .claim = "TR, BTS and BTINT can be set alone and together, and read back as written",
     .source = "SDM Vol 3, 17.4.1 and table 35-2: 1D9H bits 6, 7, 8")
{
	const struct ds_configuration *c = ds_configuration;
	struct rig rig;

	rig_open(&rig, 16);
	for (unsigned choice = 0; choice < 8; choice++) {
		uint64_t value = (choice & 1 ? c->tr : 0) | (choice & 2 ? c->bts : 0) |
				 (choice & 4 ? c->btint : 0);
		struct msr_trial trial = msr_try(IA32_DEBUGCTL, value, 0);

		EXPECT(!trial.refused);
		EXPECT_EQ(trial.read_back, value);
		EXPECT_EQ(rdmsr(IA32_DEBUGCTL), 0);
	}
	EXPECT_EQ(rig_count(&rig), 0);
	rig_close(&rig);
}

// SPDX-License-Identifier: MIT
#include "tests/lib/msr_trial.h"
#include "tests/lib/rig.h"

#define NEWEST_OFF_OS  (1ull << 9)
#define NEWEST_OFF_USR (1ull << 10)

static void try(const char *key, uint64_t bits)
{
	struct msr_trial trial = msr_try(IA32_DEBUGCTL, bits, 0);

	if (ds_caps()->dscpl) {
		EXPECT(!trial.refused);
		EXPECT_EQ(trial.read_back, bits);
	} else {
		EXPECT_EQ(trial.read_back & ~bits, 0);
		EXPECT(!trial.refused || !trial.read_back);
		test_observe(key, "%s", msr_trial_word(&trial, bits));
	}
	EXPECT_EQ(rdmsr(IA32_DEBUGCTL), 0);
}

TEST(bts_cpl_bits_as_enumerated, .group = "M", .ids = "M3", .needs = NEED_BTS,
     .claim = "BTS_OFF_OS and BTS_OFF_USR can be set and read back where DS-CPL is enumerated",
     .source = "SDM Vol 3, 17.4.6 and table 35-2: 1D9H bits 9 and 10, CPUID.1:ECX[4]")
{
	const struct ds_configuration *c = ds_configuration;
	uint64_t off_os = c->off_os ? c->off_os : NEWEST_OFF_OS;
	uint64_t off_usr = c->off_usr ? c->off_usr : NEWEST_OFF_USR;
	struct rig rig;

	rig_open(&rig, 16);
	try("off_os", off_os);
	try("off_usr", off_usr);
	try("both", off_os | off_usr);
	rig_close(&rig);
}

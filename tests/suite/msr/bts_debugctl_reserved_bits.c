// SPDX-License-Identifier: MIT
#include "kernel/trap/trap.h"
#include "tests/lib/msr_trial.h"
#include "tests/lib/rig.h"

#define NEWEST_TR (1ull << 6)

/*
 * Which bits are reserved differs between processors, and new ones get a meaning: that is only
 * observed. What must hold is that a refused write changes nothing and that no write sets another
 * bit than the one it is about. BTINT, harmless alone, stands for what was there before.
 */
TEST(bts_debugctl_reserved_bits, .group = "M", .ids = "M4", .needs = NEED_BTS,
     .claim = "a write of IA32_DEBUGCTL that raises #GP changes nothing",
     .source = "SDM Vol 2, WRMSR; SDM Vol 3, table 35-2: 1D9H")
{
	uint64_t before = ds_configuration->btint, refused = 0, ignored = 0, kept = 0;
	struct rig rig;

	if (ds_configuration->tr != NEWEST_TR)
		test_skip("MSR_DEBUGCTLA of NetBurst has other reserved bits");
	rig_open(&rig, 16);
	for (unsigned bit = 2; bit < 64; bit++) {
		uint64_t mask = 1ull << bit;
		struct msr_trial trial;

		if (bit >= 6 && bit < 16)
			continue;
		wrmsr(IA32_DEBUGCTL, before);
		trial = msr_try(IA32_DEBUGCTL, mask, 0);
		if (trial.refused) {
			EXPECT_EQ(trial.read_back, before);
			EXPECT_EQ(trap_caught().vector, VECTOR_GP);
			EXPECT_EQ(trap_caught().error, 0);
			refused |= mask;
		} else {
			EXPECT_EQ(trial.read_back & ~mask, 0);
			*(trial.read_back & mask ? &kept : &ignored) |= mask;
		}
	}
	test_observe("reserved_gp", "%lx", refused);
	test_observe("reserved_ignored", "%lx", ignored);
	test_observe("reserved_kept", "%lx", kept);
	rig_close(&rig);
}

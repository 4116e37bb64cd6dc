// SPDX-License-Identifier: MIT
// On QEMU's translator IA32_MISC_ENABLE is plain memory: bit 11 reads 0, can be written, and there
// is no Debug Store. A driver that trusts the bit alone finds BTS where there is none. Passing
// means: software cannot change what the two bits say.
#include "drivers/ds/registers.h"
#include "drivers/msr.h"
#include "kernel/trap/trap.h"
#include "tests/framework/test.h"
#include "tests/lib/msr_trial.h"

/* msr_try() puts the old value back in the same breath. */
static const char *toggle(unsigned bit, uint64_t old)
{
	uint64_t after = 0;
	struct msr_trial trial = msr_try(IA32_MISC_ENABLE, old ^ 1ull << bit, old);

	EXPECT_EQ(trial.read_back & 1ull << bit, old & 1ull << bit);
	if (trial.refused) {
		EXPECT_EQ(trap_caught().vector, VECTOR_GP);
		EXPECT_EQ(trial.read_back, old);
	}
	REQUIRE(rdmsr_safe(IA32_MISC_ENABLE, &after));
	EXPECT_EQ(after, old);
	return trial.refused ? "refused" : "ignored";
}

TEST(ds_unavailable_bits_read_only, .group = "E", .ids = "E4", .needs = NEED_DS,
     .claim = "software cannot change BTS_UNAVAILABLE and PEBS_UNAVAILABLE of IA32_MISC_ENABLE",
     .source = "SDM Vol 3, table 35-2: 1A0H bits 11 and 12, read-only")
{
	uint64_t old = 0;

	if (!rdmsr_safe(IA32_MISC_ENABLE, &old) || !wrmsr_safe(IA32_MISC_ENABLE, old))
		test_skip("IA32_MISC_ENABLE cannot be written back");
	test_observe("bts_unavailable_write", "%s", toggle(11, old));
	test_observe("pebs_unavailable_write", "%s", toggle(12, old));
}

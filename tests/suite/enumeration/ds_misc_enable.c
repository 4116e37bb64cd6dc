// SPDX-License-Identifier: MIT
#include "drivers/ds/ds.h"
#include "drivers/ds/registers.h"
#include "drivers/msr.h"
#include "kernel/trap/trap.h"
#include "tests/framework/test.h"
#include "tests/lib/msr_trial.h"

#define PEBS_UNAVAILABLE (1ull << 12)

TEST(ds_misc_enable_readable, .group = "E", .ids = "E3", .needs = NEED_DS,
     .claim = "IA32_MISC_ENABLE can be read where DS is enumerated, and BTS_UNAVAILABLE is obeyed",
     .source = "SDM Vol 3, 17.4.9 and table 35-2: 1A0H")
{
	uint64_t value = 0, again = 0;

	REQUIRE(rdmsr_safe(IA32_MISC_ENABLE, &value));
	REQUIRE(rdmsr_safe(IA32_MISC_ENABLE, &again));
	EXPECT_EQ(again, value);
	EXPECT_EQ(ds_caps()->bts_unavailable, (value & MISC_ENABLE_BTS_UNAVAILABLE) != 0);
	EXPECT_EQ(ds_caps()->status == DS_BTS_UNAVAILABLE,
		  (value & MISC_ENABLE_BTS_UNAVAILABLE) != 0);
	test_observe("bts_unavailable", "%d", (value & MISC_ENABLE_BTS_UNAVAILABLE) != 0);
	test_observe("pebs_unavailable", "%d", (value & PEBS_UNAVAILABLE) != 0);
}

// On QEMU's translator IA32_MISC_ENABLE is plain memory: bit 11 reads 0, can be written, and there
// is no Debug Store. A driver that trusts the bit alone finds BTS where there is none. Passing
// means: software cannot change what the two bits say.

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

TEST(ds_unavailable_bits_read_only, .group = "E", .ids = "E4 PE2", .needs = NEED_DS,
     .claim = "software cannot change BTS_UNAVAILABLE and PEBS_UNAVAILABLE of IA32_MISC_ENABLE",
     .source = "SDM Vol 3, table 35-2: 1A0H bits 11 and 12, read-only")
{
	uint64_t old = 0;

	if (!rdmsr_safe(IA32_MISC_ENABLE, &old) || !wrmsr_safe(IA32_MISC_ENABLE, old))
		test_skip("IA32_MISC_ENABLE cannot be written back");
	test_observe("bts_unavailable_write", "%s", toggle(11, old));
	test_observe("pebs_unavailable_write", "%s", toggle(12, old));
}

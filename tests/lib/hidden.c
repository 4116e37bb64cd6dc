// SPDX-License-Identifier: MIT
#include "tests/lib/hidden.h"

#include "drivers/ds/registers.h"
#include "drivers/msr.h"
#include "kernel/cpu.h"
#include "kernel/trap/trap.h"
#include "tests/lib/msr_trial.h"

void hidden_expect_refused(const char *key, uint64_t bits)
{
	uint64_t old = 0, after = 0;
	struct msr_trial trial;

	preemption_disable();
	REQUIRE_EQ(ds_checkout(&this_cpu()->ds), 0);
	if (!rdmsr_safe(IA32_DEBUGCTL, &old) || !wrmsr_safe(IA32_DEBUGCTL, old)) {
		test_observe(key, "no_such_msr");
		EXPECT(!wrmsr_safe(IA32_DEBUGCTL, bits));
	} else {
		trial = msr_try(IA32_DEBUGCTL, old | bits, old);
		EXPECT_EQ(trial.read_back & bits, 0);
		if (trial.refused) {
			EXPECT_EQ(trap_caught().vector, VECTOR_GP);
			EXPECT_EQ(trial.read_back, old);
		}
		EXPECT(rdmsr_safe(IA32_DEBUGCTL, &after));
		EXPECT_EQ(after, old);
		test_observe(key, "%s", msr_trial_word(&trial, bits));
	}
	ds_checkin(&this_cpu()->ds);
	preemption_enable();
}

// SPDX-License-Identifier: MIT
/* Debug controls that must not be had where CPUID hides the Debug Store. */
#include "drivers/ds/ds.h"
#include "drivers/ds/registers.h"
#include "drivers/msr.h"
#include "kernel/cpu.h"
#include "kernel/sched/task.h"
#include "kernel/silicon.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trace/context.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"
#include "tests/framework/needs.h"
#include "tests/framework/test.h"
#include "tests/lib/msr_trial.h"

/*
 * Fails the test if IA32_DEBUGCTL takes any bit of `bits`, or if a refused write changed it;
 * observes under `key` how it was refused. What it held before is put back. Task context.
 */
static void hidden_expect_refused(const char *key, uint64_t bits)
{
	uint64_t old = 0, after = 0;
	struct msr_trial trial;

	preemption_disable();
	REQUIRE_EQ(ds_checkout(&this_cpu()->trace->ds), 0);
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
	ds_checkin(&this_cpu()->trace->ds);
	preemption_enable();
}

// Xen once passed a guest's writes of IA32_DEBUGCTL through unchecked (XSA-269): BTS without a DS
// area that the processor could write hung the host. Passing means: where DS is hidden, TR and
// BTINT are refused or read back 0. BTS itself is left to bts_store_refused_when_hidden, which is
// unsafe.

TEST(bts_refused_when_hidden, .group = "E", .ids = "", .needs = NEED_NO_DS,
     .claim = "where DS is not enumerated TR and BTINT are refused with #GP or read back 0",
     .source = "SDM Vol 3, 17.4.1 and 17.4.5; XSA-269")
{
	hidden_expect_refused("tr", ds_configuration->tr);
	hidden_expect_refused("btint", ds_configuration->btint);
	hidden_expect_refused("tr_btint", ds_configuration->tr | ds_configuration->btint);
}

TEST(bts_store_refused_when_hidden, .group = "E", .ids = "", .needs = NEED_NO_DS | NEED_UNSAFE,
     .claim =
	     "where DS is not enumerated BTS is refused with #GP or reads back 0, and hangs nothing",
     .source = "SDM Vol 3, 17.4.1 and 17.4.5; XSA-269")
{
	hidden_expect_refused("bts", ds_configuration->bts);
	hidden_expect_refused("tr_bts", ds_configuration->tr | ds_configuration->bts);
}

TEST(bts_reported_missing_without_ds, .group = "E", .ids = "E2", .needs = NEED_NO_DS,
     .claim = "where DS is not enumerated BTS is reported missing, and a request for it is refused",
     .source = "SDM Vol 3, 17.4.9: CPUID.1:EDX[21] says that the MSR exists")
{
	struct bts_options wanted = {.size = 64 * sizeof(struct ptrace_bts_record)};
	struct tracer *tracer = NULL;

	EXPECT(!ds_present());
	EXPECT(!strcmp(silicon_name(), "none"));
	EXPECT(needs_missing(NEED_BTS) != NULL);
	EXPECT(needs_missing(NEED_DS) != NULL);
	EXPECT_EQ(bts_attach(current_task(), &wanted, &tracer), -ENODEV);
	EXPECT(!tracer);
}

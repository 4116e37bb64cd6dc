// SPDX-License-Identifier: MIT
#include "drivers/cpuid.h"
#include "tests/lib/chain.h"
#include "tests/lib/pmi.h"

#define MSR_PERF_GLOBAL_STATUS	 0x38eu
#define MSR_PERF_GLOBAL_OVF_CTRL 0x390u
#define OVERFLOW_BUFFER		 (1ull << 62)

static bool overflow_shows(void)
{
	return rdmsr(MSR_PERF_GLOBAL_STATUS) & OVERFLOW_BUFFER;
}

/* Described for PEBS; of BTS nothing is said. */
TEST(bts_threshold_status, .group = "T", .ids = "T1", .needs = NEED_BTS,
     .claim =
	     "the threshold may show in IA32_PERF_GLOBAL_STATUS.OvfBuf, where software can clear it",
     .source = "SDM Vol 3, table 35-2: 38EH bit 62; SDM Vol 3, 17.4.9.5: the index tells the cause")
{
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	if (cpuid(0, 0).eax < 0xa || (cpuid(0xa, 0).eax & 0xff) < 2)
		test_skip("no IA32_PERF_GLOBAL_STATUS (CPUID.0AH:EAX[7:0] < 2)");
	rig_open(&rig, 64);
	pmi_take(&pmi);
	wrmsr(MSR_PERF_GLOBAL_OVF_CTRL, OVERFLOW_BUFFER);
	EXPECT(!overflow_shows());
	rig_set_threshold(&rig, 8);
	chain_trace(&rig, rig_interrupt(), &chain_a, 16);
	pmi_settle();
	EXPECT_EQ(pmi.count, 1);
	test_observe("ovfbuf", "%d", overflow_shows());
	wrmsr(MSR_PERF_GLOBAL_OVF_CTRL, OVERFLOW_BUFFER);
	EXPECT(!overflow_shows());
	pmi_release(&pmi);
	rig_close(&rig);
}

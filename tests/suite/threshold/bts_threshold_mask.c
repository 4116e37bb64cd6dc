// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "drivers/cpuid.h"
#include "tests/lib/chain.h"
#include "tests/lib/pmi.h"

// The local APIC masks the LVT entry when it delivers a PMI. A handler that does not clear the mask
// gets one interrupt in its life and a buffer that stays full. Passing means: delivery masks the
// entry, and clearing the mask lets the next crossing interrupt.

static void cross(struct rig *rig)
{
	rig_reset(rig);
	chain_trace(rig, rig_interrupt(), &chain_a, 16);
	pmi_settle();
}

TEST(bts_threshold_masks, .group = "T", .ids = "T3", .needs = NEED_BTS,
     .claim =
	     "delivery masks the LVT entry, and clearing the mask lets the next crossing interrupt",
     .source = "SDM Vol 3, 10.5.1 and 17.4.9.5: mask")
{
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, 64);
	pmi_take(&pmi);
	rig_set_threshold(&rig, 8);
	EXPECT(!(lapic_read_lvtpc() & LVT_MASKED));
	for (unsigned crossing = 1; crossing <= 3; crossing++) {
		cross(&rig);
		EXPECT_EQ(pmi.count, crossing);
		EXPECT(pmi.lvtpc & LVT_MASKED);
		EXPECT(!(lapic_read_lvtpc() & LVT_MASKED));
		EXPECT_EQ(pmi.lvtpc & LVT_VECTOR_MASK, PMI_VECTOR);
	}
	pmi_release(&pmi);
	rig_close(&rig);
}

TEST(bts_threshold_left_masked, .group = "T", .ids = "T4", .needs = NEED_BTS,
     .claim = "while the LVT entry is left masked no second interrupt comes, and recording goes on",
     .source = "SDM Vol 3, 17.4.9.5 and 10.5.1: mask")
{
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED, .keep_masked = true};

	rig_open(&rig, 64);
	pmi_take(&pmi);
	rig_set_threshold(&rig, 8);
	cross(&rig);
	EXPECT_EQ(pmi.count, 1);
	cross(&rig);
	EXPECT_EQ(pmi.count, 1);
	EXPECT_EQ(rig_count(&rig), 16);
	chain_expect(&rig, 0, 16, &chain_a, 16, 0);

	lapic_unmask_lvtpc();
	pmi_settle();
	test_observe("masked_interrupt_comes_later", "%d", pmi.count == 2);
	pmi.count = 0;
	lapic_unmask_lvtpc();
	cross(&rig);
	EXPECT_EQ(pmi.count, 1);
	pmi_release(&pmi);
	rig_close(&rig);
}

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
	     "the threshold shows in IA32_PERF_GLOBAL_STATUS.OvfBuf each time or never, not before it "
	     "is reached, and software can clear it",
     .source = "SDM Vol 3, table 35-2: 38EH bit 62; SDM Vol 3, 17.4.9.5: the index tells the cause")
{
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};
	bool shows;

	if (cpuid(0, 0).eax < 0xa || (cpuid(0xa, 0).eax & 0xff) < 2)
		test_skip("no IA32_PERF_GLOBAL_STATUS (CPUID.0AH:EAX[7:0] < 2)");
	rig_open(&rig, 64);
	pmi_take(&pmi);
	wrmsr(MSR_PERF_GLOBAL_OVF_CTRL, OVERFLOW_BUFFER);
	EXPECT(!overflow_shows());
	rig_set_threshold(&rig, 8);
	chain_trace(&rig, rig_interrupt(), &chain_a, 6);
	EXPECT(!overflow_shows());
	cross(&rig);
	shows = overflow_shows();
	test_observe("ovfbuf", "%d", shows);
	wrmsr(MSR_PERF_GLOBAL_OVF_CTRL, OVERFLOW_BUFFER);
	EXPECT(!overflow_shows());
	cross(&rig);
	EXPECT_EQ(overflow_shows(), shows);
	EXPECT_EQ(pmi.count, 2);
	wrmsr(MSR_PERF_GLOBAL_OVF_CTRL, OVERFLOW_BUFFER);
	pmi_release(&pmi);
	rig_close(&rig);
}

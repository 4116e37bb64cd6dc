// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "tests/lib/msr_trial.h"
#include "tests/lib/pmi.h"

#define SLOTS	     512
#define THRESHOLD    256
#define X2APIC_LVTPC 0x834u
#define X2APIC_ICR   0x830u

TEST(bts_threshold_x2apic, .group = "T", .ids = "T9", .needs = NEED_BTS,
     .claim = "through the LVT entry of an x2APIC, MSR 834H, one interrupt comes at the threshold",
     .source = "SDM Vol 3, 10.12.1.2 and 17.4.9.5")
{
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};
	uint64_t entry;

	if (!lapic_is_x2apic())
		test_skip("the run is in xAPIC mode; the word x2apic changes that");
	rig_open(&rig, SLOTS);
	pmi_take(&pmi);
	pmi_cross(&pmi, THRESHOLD, SLOTS);
	pmi_release(&pmi);
	entry = rdmsr(X2APIC_LVTPC);
	EXPECT_EQ(entry & LVT_MASKED, 0);
	EXPECT(msr_try(X2APIC_LVTPC, entry | 1ull << 32, entry).refused);
	EXPECT_EQ(rdmsr(X2APIC_ICR) & LVT_PENDING, 0);
	rig_close(&rig);
}

// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "kernel/lock.h"
#include "tests/lib/chain.h"
#include "tests/lib/pmi.h"

#define SLOTS	  512
#define THRESHOLD 256

TEST(bts_threshold_nmi, .group = "T", .ids = "T7", .needs = NEED_BTS,
     .claim = "with NMI delivery the interrupt comes though IF = 0, at or past the threshold",
     .source = "SDM Vol 3, 10.5.1 and 17.4.9.5: delivery mode NMI")
{
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_NMI};
	uint64_t flags;

	rig_open(&rig, SLOTS);
	pmi_take(&pmi);
	rig_set_threshold(&rig, THRESHOLD);
	flags = interrupts_save();
	chain_trace(&rig, rig_interrupt(), &chain_a, THRESHOLD - 1);
	pmi_settle();
	EXPECT_EQ(pmi.count, 0);
	chain_trace(&rig, rig_interrupt(), &chain_a, SLOTS - THRESHOLD);
	pmi_settle();
	/* Unmasked, the handler's own first branches may ask for one more. */
	EXPECT(pmi.count == 1 || (pmi.count == 2 && !(pmi.lvtpc & LVT_MASKED)));
	interrupts_restore(flags);
	EXPECT(pmi.index >= rig.base + THRESHOLD * rig.record);
	EXPECT(pmi.index <= rig.base + SLOTS * rig.record);
	test_observe("lvt_masked_by_nmi", "%d", !!(pmi.lvtpc & LVT_MASKED));
	test_observe("nmi_skid_at_first_read", "%lu",
		     (pmi.index - rig.base) / rig.record - THRESHOLD);
	pmi_release(&pmi);
	rig_close(&rig);
}

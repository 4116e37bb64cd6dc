// SPDX-License-Identifier: MIT
/* What a driver of BTS in interrupt mode does, as a test: T10 of the reference. */
#include "kernel/lock.h"
#include "tests/lib/chain.h"
#include "tests/lib/pmi.h"

#define SLOTS	  512 /* a handler's own way in must fit behind the threshold */
#define THRESHOLD 128
#define WALKS	  (20 * SLOTS / 32)

static struct chain_reader reader;
static size_t emptied_full;

static void empty(struct pmi *pmi)
{
	size_t count = rig_count(pmi->rig);

	emptied_full += count >= SLOTS - 1;
	for (size_t slot = 0; slot < count; slot++) {
		struct bts_struct record = rig_record(pmi->rig, slot);

		chain_feed(&reader, &record);
	}
	ds_set(pmi->rig->area, DS_BTS_INDEX, pmi->rig->base);
}

/*
 * Walks many times the buffer's size while the interrupt's handler empties it (TR cleared first,
 * index back to the base, LVT entry unmasked, TR restored), and fails the test unless every branch
 * came through, once and in order. With NMI delivery interrupts are off all the time.
 */
static void drain_walks(enum pmi_delivery delivery)
{
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = delivery, .go_on = true, .serve = empty};
	uint64_t flags = 0;

	reader = (struct chain_reader){.chain = &chain_a};
	emptied_full = 0;
	rig_open(&rig, SLOTS);
	pmi_take(&pmi);
	rig_set_threshold(&rig, THRESHOLD);
	if (delivery == PMI_NMI)
		flags = interrupts_save();
	wrmsr(IA32_DEBUGCTL, rig_interrupt());
	for (uint64_t walk = 0; walk < WALKS; walk++)
		chain_walk(&chain_a, chain_length(walk));
	wrmsr(IA32_DEBUGCTL, 0);
	interrupts_restore(flags);
	pmi_settle();
	pmi.go_on = false;
	empty(&pmi);
	pmi_release(&pmi);
	EXPECT(pmi.count >= WALKS * 32 / SLOTS);
	EXPECT_EQ(emptied_full, 0);
	chain_expect_walks(&reader, WALKS, "drained");
	rig_close(&rig);
}

TEST(bts_threshold_drain_fixed, .group = "T", .ids = "T10", .needs = NEED_BTS,
     .claim = "a fixed-vector handler that empties the buffer loses no branch and gets none twice",
     .source = "SDM Vol 3, 17.4.9.5: duties of the handler")
{
	drain_walks(PMI_FIXED);
}

TEST(bts_threshold_drain_nmi, .group = "T", .ids = "T10", .needs = NEED_BTS,
     .claim = "an NMI handler that empties the buffer loses no branch and gets none twice",
     .source = "SDM Vol 3, 17.4.9.5: duties of the handler")
{
	drain_walks(PMI_NMI);
}

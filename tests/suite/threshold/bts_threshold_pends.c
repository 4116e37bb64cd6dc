// SPDX-License-Identifier: MIT
#include "kernel/lock.h"
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/circular.h"
#include "tests/lib/pmi.h"

#define SLOTS 64
#define N     200

/* What 200 branches leave in 64 slots of a longer piece of memory. */
static void check_buffer(struct rig *rig, const struct calibration *c)
{
	size_t capacity = SLOTS - c->unused;

	if (c->when_full == FULL_WRAPS) {
		circular_expect(rig, capacity, &chain_a, N);
		return;
	}
	test_observe("records_behind_maximum", "%zu", rig_used(rig) - capacity);
	EXPECT_EQ(rig_count(rig), c->when_full == FULL_STOPS ? capacity : N);
	EXPECT_EQ(rig_used(rig), c->when_full == FULL_STOPS ? capacity : N);
	rig_lengthen(rig);
	chain_expect(rig, 0, capacity, &chain_a, N, 0);
}

TEST(bts_threshold_pends, .group = "T", .ids = "T6", .needs = NEED_BTS,
     .claim = "the interrupt waits for IF = 1; records past the maximum stop, wrap or go on alike",
     .source = "SDM Vol 3, 17.4.9.5")
{
	const struct calibration *c = calibration();
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};
	uint64_t flags;

	test_observe("when_full", "%s", when_full_name(c->when_full));
	rig_open(&rig, N + 8);
	pmi_take(&pmi);
	rig_shorten(&rig, SLOTS, maximum_extra(c->maximum));
	rig_set_threshold(&rig, SLOTS / 2);
	flags = interrupts_save();
	chain_trace(&rig, rig_interrupt(), &chain_a, N);
	pmi_settle();
	EXPECT_EQ(pmi.count, 0);
	interrupts_restore(flags);
	pmi_settle();
	EXPECT_EQ(pmi.count, 1);
	EXPECT_EQ(pmi.index, rig_index(&rig));
	EXPECT(c->when_full != FULL_OTHER);
	check_buffer(&rig, c);
	pmi_release(&pmi);
	rig_close(&rig);
}

// SPDX-License-Identifier: MIT
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/pmi.h"
#include "tests/lib/rig.h"

// BTINT = 0 alone does not make a buffer silent: the SDM asks for a threshold above the maximum as
// well. A driver that never writes the threshold (libiht left it as it was) gets interrupts from a
// buffer that it takes for circular. Passing means: with the threshold out of reach none arrives in
// many rounds.

#define NO_INTERRUPT_SLOTS 32

TEST(bts_wrap_no_interrupt, .group = "W", .ids = "W9", .needs = NEED_BTS,
     .claim = "a circular buffer with its threshold above the maximum never interrupts",
     .source = "SDM Vol 3, 17.4.9.3")
{
	const struct calibration *c = calibration();
	uint64_t n = 100 * NO_INTERRUPT_SLOTS;
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, NO_INTERRUPT_SLOTS + 8);
	pmi_take(&pmi);
	rig_shorten(&rig, NO_INTERRUPT_SLOTS, maximum_extra(c->maximum));
	ds_set(rig.area, DS_BTS_INTERRUPT_THRESHOLD, ds_get(rig.area, DS_BTS_ABSOLUTE_MAXIMUM) + 1);
	chain_trace(&rig, rig_all(), &chain_a, n);
	pmi_settle();
	EXPECT_EQ(pmi.count, 0);
	circular_expect(&rig, NO_INTERRUPT_SLOTS - c->unused, &chain_a, n);

	/* The same path does interrupt where it shall. */
	rig_reset(&rig);
	rig_set_threshold(&rig, 4);
	chain_trace(&rig, rig_interrupt(), &chain_a, 8);
	pmi_settle();
	EXPECT_EQ(pmi.count, 1);
	pmi_release(&pmi);
	rig_close(&rig);
}

#define REACHABLE_THRESHOLD_SLOTS 16

/* "It's not enough to clear the BTINT flag itself only", says the manual of preventing it. */
TEST(bts_wrap_reachable_threshold, .group = "W", .ids = "W8", .needs = NEED_BTS,
     .claim = "a threshold inside a circular buffer may interrupt, and changes nothing else",
     .source = "SDM Vol 3, 17.4.9.3")
{
	const struct calibration *c = calibration();
	size_t capacity = REACHABLE_THRESHOLD_SLOTS - c->unused;
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, REACHABLE_THRESHOLD_SLOTS + 8);
	pmi_take(&pmi);
	rig_shorten(&rig, REACHABLE_THRESHOLD_SLOTS, maximum_extra(c->maximum));
	rig_set_threshold(&rig, REACHABLE_THRESHOLD_SLOTS / 2);
	chain_trace(&rig, rig_all(), &chain_a, 3 * REACHABLE_THRESHOLD_SLOTS);
	pmi_settle();
	pmi_release(&pmi);
	test_observe("circular_interrupts", "%d", pmi.count > 0);
	EXPECT_EQ(pmi.count > 0, c->interrupt_when_circular);
	circular_expect(&rig, capacity, &chain_a, 3 * REACHABLE_THRESHOLD_SLOTS);
	rig_close(&rig);
}

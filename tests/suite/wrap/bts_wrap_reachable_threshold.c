// SPDX-License-Identifier: MIT
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/circular.h"
#include "tests/lib/pmi.h"

#define SLOTS 16

/* "It's not enough to clear the BTINT flag itself only", says the manual of preventing it. */
TEST(bts_wrap_reachable_threshold, .group = "W", .ids = "W8", .needs = NEED_BTS,
     .claim = "a threshold inside a circular buffer may interrupt, and changes nothing else",
     .source = "SDM Vol 3, 17.4.9.3")
{
	const struct calibration *c = calibration();
	size_t capacity = SLOTS - c->unused;
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, SLOTS + 8);
	pmi_take(&pmi);
	rig_shorten(&rig, SLOTS, maximum_extra(c->maximum));
	rig_set_threshold(&rig, SLOTS / 2);
	chain_trace(&rig, rig_all(), &chain_a, 3 * SLOTS);
	pmi_settle();
	pmi_release(&pmi);
	test_observe("circular_interrupts", "%d", pmi.count > 0);
	EXPECT_EQ(pmi.count > 0, c->interrupt_when_circular);
	circular_expect(&rig, capacity, &chain_a, 3 * SLOTS);
	rig_close(&rig);
}

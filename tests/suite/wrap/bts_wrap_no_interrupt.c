// SPDX-License-Identifier: MIT
// BTINT = 0 alone does not make a buffer silent: the SDM asks for a threshold above the maximum as
// well. A driver that never writes the threshold (libiht left it as it was) gets interrupts from a
// buffer that it takes for circular. Passing means: with the threshold out of reach none arrives in
// many rounds.
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/circular.h"
#include "tests/lib/pmi.h"

#define SLOTS 32

TEST(bts_wrap_no_interrupt, .group = "W", .ids = "W9", .needs = NEED_BTS,
     .claim = "a circular buffer with its threshold above the maximum never interrupts",
     .source = "SDM Vol 3, 17.4.9.3")
{
	const struct calibration *c = calibration();
	uint64_t n = 100 * SLOTS;
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, SLOTS + 8);
	pmi_take(&pmi);
	rig_shorten(&rig, SLOTS, maximum_extra(c->maximum));
	ds_set(rig.area, DS_BTS_INTERRUPT_THRESHOLD, ds_get(rig.area, DS_BTS_ABSOLUTE_MAXIMUM) + 1);
	chain_trace(&rig, rig_all(), &chain_a, n);
	pmi_settle();
	EXPECT_EQ(pmi.count, 0);
	circular_expect(&rig, SLOTS - c->unused, &chain_a, n);

	/* The same path does interrupt where it shall. */
	rig_reset(&rig);
	rig_set_threshold(&rig, 4);
	chain_trace(&rig, rig_interrupt(), &chain_a, 8);
	pmi_settle();
	EXPECT_EQ(pmi.count, 1);
	pmi_release(&pmi);
	rig_close(&rig);
}

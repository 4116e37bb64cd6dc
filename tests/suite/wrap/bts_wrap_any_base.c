// SPDX-License-Identifier: MIT
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/circular.h"
#include "tests/lib/exact.h"

#define SLOTS 16
#define N     (3 * SLOTS + 5)

/* The page has room before the base, so that a wrap to anywhere else shows. */
static void check(const struct calibration *c, size_t offset)
{
	struct rig rig;

	rig_open_at(&rig, SLOTS + 4, offset);
	rig_shorten(&rig, SLOTS, maximum_extra(c->maximum));
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, N);
	circular_expect(&rig, SLOTS - c->unused, &chain_a, N);
	rig_close(&rig);
}

TEST(bts_wrap_any_base, .group = "W", .ids = "W4 L3", .needs = NEED_BTS,
     .claim = "the index wraps to the base itself, wherever in a cache line or page that is",
     .source = "SDM Vol 3, 17.4.9: BTS buffer base")
{
	static const size_t offsets[] = {0,	   8,	      40,	 64,	  120,
					 2048 + 8, 4096 - 64, 4096 - 24, 4096 - 8};
	const struct calibration *c = calibration();

	for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
		check(c, offsets[i]);
}

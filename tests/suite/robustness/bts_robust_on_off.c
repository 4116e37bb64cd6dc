// SPDX-License-Identifier: MIT
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/exact.h"

#define TIMES 2000 /* a million with scale=50000 */
#define SLOTS 64

/* One record further, round the buffer's `end`; no manual says when the index goes to the base. */
static bool is_next(const struct rig *rig, uint64_t before, uint64_t after, uint64_t end)
{
	if (before == end)
		return after == rig->base + rig->record;
	return after == before + rig->record || (before + rig->record == end && after == rig->base);
}

/* One branch while it is on, one while it is off, then look. */
TEST(bts_robust_on_off, .group = "Z", .ids = "Z1", .needs = NEED_BTS,
     .claim =
	     "however often recording is turned on and off, each branch between is stored, none after",
     .source = "SDM Vol 3, 17.4.5")
{
	uint64_t times = test_scaled(TIMES), right = 0, smis = smi_count();
	size_t capacity = SLOTS - (CALIBRATION_SLOTS - calibration()->used_at_end);
	struct rig rig;

	rig_open(&rig, SLOTS);
	for (uint64_t i = 0; i < times; i++) {
		uint64_t at = rig_index(&rig);

		TRACED(rig_all(), "jmp 1f\n1:\n\t");
		chain_walk(&chain_a, 2);
		right += is_next(&rig, at, rig_index(&rig), rig.base + capacity * rig.record);
	}
	if (smi_count() == smis)
		EXPECT_EQ(right, times);
	EXPECT(rig_index(&rig) <= rig.base + SLOTS * rig.record);
	test_note("%lu times", times);
	rig_close(&rig);
}

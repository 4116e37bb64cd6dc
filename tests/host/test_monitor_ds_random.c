/* SPDX-License-Identifier: MIT */
/* sources: monitor/pebs/?*.c monitor/pmu/?*.c monitor/pt/?*.c */
/* sources: monitor/ds/?*.c monitor/trace.c monitor/profile.c */
/* Random Debug Stores: what a branch does must not depend on what was remembered of the last one.
 */
#include <stdlib.h>

#include "tests/host/monitor_ds_rig.h"

enum { ROUNDS = 3000, BRANCHES = 60 };

static uint64_t state;

static unsigned below(unsigned bound)
{
	state = state * 6364136223846793005 + 1442695040888963407;
	return (unsigned)(state >> 33) % bound;
}

static void randomize(void)
{
	rig_reset(NULL);
	rig.area = RIG_LINEAR + below(RIG_PAGE + 1);
	rig.base = RIG_LINEAR + 3 * RIG_PAGE - 8 * below(120) - below(4);
	rig.silicon.ds.behaviour.room = below(3);
	rig.silicon.ds.behaviour.wrap = below(2);
	rig.silicon.ds.behaviour.full = below(3);
	rig.silicon.ds.behaviour.threshold = below(3);
	rig.silicon.ds.behaviour.compare = below(2);
	rig.silicon.ds.behaviour.circular = below(2);
	rig_configure(below(30 * RIG_RECORD), below(33 * RIG_RECORD),
		      RIG_ON | (below(2) ? RIG_BTINT : 0));
	rig_set_index(rig.base + below(3) * RIG_RECORD);
}

static void run(bool forgetting)
{
	for (unsigned n = 1; n <= BRANCHES; n++) {
		if (forgetting)
			rig.vcpu.translations++;
		rig_branches(n, 1);
		if (n % 32 == 0)
			rig_set_index(rig.base);
	}
}

static void remembering_changes_nothing(void **unused)
{
	static uint8_t memory[RIG_PAGES][RIG_PAGE];

	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t seed = state = round;
		unsigned interrupts;

		randomize();
		run(true);
		memcpy(memory, rig.memory, sizeof(memory));
		interrupts = rig.interrupts;
		state = seed;
		randomize();
		run(false);
		assert_memory_equal(rig.memory, memory, sizeof(memory));
		assert_int_equal(rig.interrupts, interrupts);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(remembering_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* sources: monitor/pebs/?*.c monitor/pmu/?*.c monitor/pt/?*.c */
/* sources: monitor/ds/?*.c monitor/trace.c monitor/profile.c */
#include "tests/host/monitor_ds_rig.h"

/* Interrupts after each of the first four branches, one digit each. */
static unsigned interrupts_with(uint64_t threshold, uint64_t debugctl)
{
	unsigned digits = 0;

	rig_configure(8 * RIG_RECORD, threshold, RIG_ON | debugctl);
	for (uint64_t n = 1; n <= 4; n++) {
		rig.interrupts = 0;
		rig_branches(n, 1);
		digits = digits * 10 + rig.interrupts;
	}
	return digits;
}

static void every_record_at_or_past_the_threshold(void **state)
{
	assert_int_equal(interrupts_with(2 * RIG_RECORD, RIG_BTINT), 111);
	assert_int_equal(interrupts_with(0, RIG_BTINT), 1111);
	assert_int_equal(interrupts_with(9 * RIG_RECORD, RIG_BTINT), 0);
}

static void other_ways_to_compare(void **state)
{
	rig.silicon.ds.behaviour.threshold = DS_THRESHOLD_CROSSED;
	assert_int_equal(interrupts_with(2 * RIG_RECORD, RIG_BTINT), 100);
	assert_int_equal(interrupts_with(2 * RIG_RECORD - 1, RIG_BTINT), 100);
	rig.silicon.ds.behaviour.threshold = DS_THRESHOLD_EQUAL;
	assert_int_equal(interrupts_with(2 * RIG_RECORD, RIG_BTINT), 100);
	assert_int_equal(interrupts_with(2 * RIG_RECORD - 1, RIG_BTINT), 0);
	rig.silicon.ds.behaviour.compare = DS_COMPARE_BEFORE;
	assert_int_equal(interrupts_with(2 * RIG_RECORD, RIG_BTINT), 10);
}

static void clearing_btint_is_not_enough(void **state)
{
	assert_int_equal(interrupts_with(2 * RIG_RECORD, 0), 111);
	rig.silicon.ds.behaviour.circular = DS_CIRCULAR_IS_SILENT;
	assert_int_equal(interrupts_with(2 * RIG_RECORD, 0), 0);
	assert_int_equal(interrupts_with(2 * RIG_RECORD, RIG_BTINT), 111);
}

static void full_buffer_stops(void **state)
{
	rig_configure(4 * RIG_RECORD, 2 * RIG_RECORD, RIG_ON | RIG_BTINT);
	rig_branches(1, 10);
	assert_int_equal(rig_index(), 4);
	assert_int_equal(rig_slot(0), 1);
	assert_int_equal(rig_slot(3), 4);
	assert_int_equal(rig_slot(4), 0);
}

static void full_buffer_may_wrap_or_run_on(void **state)
{
	rig.silicon.ds.behaviour.full = DS_FULL_WRAP;
	rig_configure(4 * RIG_RECORD, 2 * RIG_RECORD, RIG_ON | RIG_BTINT);
	rig_branches(1, 5);
	assert_int_equal(rig_slot(0), 5);
	assert_int_equal(rig_index(), 1);
	rig.silicon.ds.behaviour.full = DS_FULL_WRITE;
	rig_configure(4 * RIG_RECORD, 2 * RIG_RECORD, RIG_ON | RIG_BTINT);
	rig_branches(1, 5);
	assert_int_equal(rig_slot(4), 5);
	assert_int_equal(rig_index(), 5);
}

static void sees_what_the_handler_resets(void **state)
{
	rig_configure(8 * RIG_RECORD, 2 * RIG_RECORD, RIG_ON | RIG_BTINT);
	rig_branches(1, 2);
	assert_int_equal(rig.interrupts, 1);
	rig_set_index(rig.base);
	rig_branches(3, 1);
	assert_int_equal(rig.interrupts, 1);
	assert_int_equal(rig_slot(0), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(every_record_at_or_past_the_threshold, rig_reset),
		cmocka_unit_test_setup(other_ways_to_compare, rig_reset),
		cmocka_unit_test_setup(clearing_btint_is_not_enough, rig_reset),
		cmocka_unit_test_setup(full_buffer_stops, rig_reset),
		cmocka_unit_test_setup(full_buffer_may_wrap_or_run_on, rig_reset),
		cmocka_unit_test_setup(sees_what_the_handler_resets, rig_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* sources: monitor/pebs/?*.c monitor/pmu/?*.c monitor/pt/?*.c */
/* sources: monitor/ds/?*.c monitor/trace.c monitor/profile.c */
#include "tests/host/monitor_ds_rig.h"

static void record_holds_from_to_and_no_flags(void **state)
{
	rig_configure(10 * RIG_RECORD, 11 * RIG_RECORD, RIG_ON);
	memset(rig_at(rig.base), 0xaa, 2 * RIG_RECORD);
	rig_branch(0x1111222233334444, 0xffffffff80001000, 0, 0);
	assert_int_equal(rig_get(rig.base), 0x1111222233334444);
	assert_int_equal(rig_get(rig.base + 8), 0xffffffff80001000);
	assert_int_equal(rig_get(rig.base + 16), 0);
	assert_int_equal(rig_get(rig.base + 24), 0xaaaaaaaaaaaaaaaa);
	assert_int_equal(rig_index(), 1);
	assert_int_equal(rig_field(0), rig.base);
	assert_int_equal(rig_field(3), rig.base + 11 * RIG_RECORD);
}

static void needs_tr_and_bts(void **state)
{
	rig_configure(240, 264, RIG_TR);
	assert_false(ds_tracing(&rig.vcpu));
	rig_branches(1, 1);
	ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, RIG_BTS);
	rig_branches(1, 1);
	assert_int_equal(rig_index(), 0);
	ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, RIG_ON);
	assert_true(ds_tracing(&rig.vcpu));
	rig_branches(1, 1);
	assert_int_equal(rig_index(), 1);
}

static unsigned stored_with(uint64_t bits, unsigned from_cpl, unsigned to_cpl)
{
	rig_configure(240, 264, RIG_ON | bits);
	rig_branch(1, 2, from_cpl, to_cpl);
	return rig_index();
}

static void filters_by_privilege(void **state)
{
	assert_int_equal(stored_with(0, 0, 0), 1);
	assert_int_equal(stored_with(0, 3, 3), 1);
	assert_int_equal(stored_with(RIG_OFF_OS, 0, 0), 0);
	assert_int_equal(stored_with(RIG_OFF_OS, 3, 3), 1);
	assert_int_equal(stored_with(RIG_OFF_OS, 1, 1), 1);
	assert_int_equal(stored_with(RIG_OFF_USR, 0, 0), 1);
	assert_int_equal(stored_with(RIG_OFF_USR, 3, 3), 0);
	assert_int_equal(stored_with(RIG_OFF_USR, 1, 1), 0);
	assert_int_equal(stored_with(RIG_OFF_OS | RIG_OFF_USR, 0, 0), 0);
	assert_int_equal(stored_with(RIG_OFF_OS | RIG_OFF_USR, 3, 3), 0);
}

static void transitions_follow_the_behaviour(void **state)
{
	assert_int_equal(stored_with(RIG_OFF_OS, 3, 0), 0);
	assert_int_equal(stored_with(RIG_OFF_OS, 0, 3), 1);
	assert_int_equal(stored_with(RIG_OFF_USR, 3, 0), 1);
	assert_int_equal(stored_with(RIG_OFF_USR, 0, 3), 0);
	rig.silicon.ds.behaviour.filter = DS_FILTER_BY_SOURCE;
	assert_int_equal(stored_with(RIG_OFF_OS, 3, 0), 1);
	assert_int_equal(stored_with(RIG_OFF_OS, 0, 3), 0);
}

static void check_circle(unsigned slots)
{
	rig_branches(1, slots);
	assert_int_equal(rig_slot(0), 1);
	assert_int_equal(rig_slot(slots - 1), slots);
	rig_branches(slots + 1, 1);
	assert_int_equal(rig_slot(0), slots + 1);
	assert_int_equal(rig_index(), 1);
	assert_int_equal(rig_slot(slots), 0);
	assert_int_equal(rig.interrupts, 0);
}

/* Linux puts the absolute maximum at the end of the last record, the SDM one byte further. */
static void both_conventions_of_the_maximum_give_all_slots(void **state)
{
	rig_configure(4 * RIG_RECORD, 5 * RIG_RECORD, RIG_ON);
	check_circle(4);
	rig_reset(NULL);
	rig_configure(4 * RIG_RECORD + 1, 5 * RIG_RECORD, RIG_ON);
	check_circle(4);
	rig_reset(NULL);
	rig.silicon.ds.behaviour.wrap = DS_WRAP_BEFORE_WRITE;
	rig_configure(4 * RIG_RECORD, 5 * RIG_RECORD, RIG_ON);
	check_circle(4);
	rig_reset(NULL);
	rig_configure(4 * RIG_RECORD - 1, 5 * RIG_RECORD, RIG_ON);
	check_circle(3);
}

static void index_wraps_when_the_behaviour_says(void **state)
{
	rig_configure(4 * RIG_RECORD, 5 * RIG_RECORD, RIG_ON);
	rig_branches(1, 4);
	assert_int_equal(rig_index(), 0);
	rig.silicon.ds.behaviour.wrap = DS_WRAP_BEFORE_WRITE;
	rig_configure(4 * RIG_RECORD, 5 * RIG_RECORD, RIG_ON);
	rig_branches(1, 4);
	assert_int_equal(rig_index(), 4);
}

static void one_record_is_a_buffer(void **state)
{
	rig_configure(RIG_RECORD, 2 * RIG_RECORD, RIG_ON);
	rig_branches(1, 100);
	assert_int_equal(rig_slot(0), 100);
	assert_int_equal(rig_slot(1), 0);
}

static void no_room_at_all_stores_nothing(void **state)
{
	rig_configure(RIG_RECORD - 1, 2 * RIG_RECORD, RIG_ON);
	rig_branches(1, 10);
	assert_int_equal(rig_slot(0), 0);
	assert_int_equal(rig_index(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(record_holds_from_to_and_no_flags, rig_reset),
		cmocka_unit_test_setup(needs_tr_and_bts, rig_reset),
		cmocka_unit_test_setup(filters_by_privilege, rig_reset),
		cmocka_unit_test_setup(transitions_follow_the_behaviour, rig_reset),
		cmocka_unit_test_setup(both_conventions_of_the_maximum_give_all_slots, rig_reset),
		cmocka_unit_test_setup(index_wraps_when_the_behaviour_says, rig_reset),
		cmocka_unit_test_setup(one_record_is_a_buffer, rig_reset),
		cmocka_unit_test_setup(no_room_at_all_stores_nothing, rig_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

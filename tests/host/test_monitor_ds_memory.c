/* SPDX-License-Identifier: MIT */
/* sources: monitor/pebs/?*.c monitor/pmu/?*.c monitor/pt/?*.c */
/* sources: monitor/ds/?*.c monitor/trace.c monitor/profile.c */
#include "tests/host/monitor_ds_rig.h"

static void records_and_fields_may_straddle_pages(void **state)
{
	rig.area = RIG_LINEAR + RIG_PAGE - 13;
	rig.base = RIG_LINEAR + 3 * RIG_PAGE - 36;
	rig_configure(4 * RIG_RECORD, 5 * RIG_RECORD, RIG_ON);
	rig_branches(1, 3);
	for (unsigned n = 0; n < 3; n++) {
		assert_int_equal(rig_slot(n), n + 1);
		assert_int_equal(rig_get(rig.base + n * RIG_RECORD + 8), n + 0x1001);
	}
	assert_int_equal(rig_index(), 3);
}

static void absent_pages_lose_the_record(void **state)
{
	rig_configure(4 * RIG_RECORD, 2 * RIG_RECORD, RIG_ON | RIG_BTINT);
	rig.absent[1] = true;
	rig_branches(1, 3);
	assert_int_equal(rig_index(), 0);
	assert_int_equal(rig.interrupts, 0);
	rig.absent[1] = false;
	rig.absent[0] = true;
	rig.vcpu.translations++;
	rig_branches(1, 3);
	assert_int_equal(rig_slot(0), 0);
}

/* A record that would be half written is not written at all. */
static void half_absent_record_is_lost(void **state)
{
	rig.base = RIG_LINEAR + 2 * RIG_PAGE - 12;
	rig_configure(4 * RIG_RECORD, 5 * RIG_RECORD, RIG_ON);
	rig.absent[2] = true;
	rig_branches(1, 1);
	assert_int_equal(rig_slot(0), 0);
	assert_int_equal(rig_index(), 0);
}

static void translations_are_remembered_until_forgotten(void **state)
{
	unsigned before;

	rig_configure(100 * RIG_RECORD, 101 * RIG_RECORD, RIG_ON);
	rig_branches(1, 1);
	before = rig.translations;
	rig_branches(2, 50);
	assert_int_equal(rig.translations, before);
	rig.vcpu.translations++;
	rig_branches(52, 1);
	assert_true(rig.translations > before);
	before = rig.translations;
	rig.vcpu.translations++;
	rig_branches(53, 1);
	assert_true(rig.translations > before);
	assert_int_equal(rig_index(), 53);
}

/* A page of a device is neither read as DS area nor written as buffer. */
static void devices_are_not_touched(void **state)
{
	rig_configure(4 * RIG_RECORD, 5 * RIG_RECORD, RIG_ON);
	rig.device[1] = true;
	rig_branches(1, 3);
	assert_int_equal(rig_slot(0), 0);
	assert_int_equal(rig_index(), 0);
	rig.device[1] = false;
	rig.device[0] = true;
	rig.vcpu.translations++;
	rig_branches(1, 3);
	assert_int_equal(rig_slot(0), 0);
	rig.device[0] = false;
	rig_branches(1, 3);
	assert_int_equal(rig_index(), 3);
}

/* SMAP is suspended; the page tables are left to guest_translate(), which knows the guest's mode:
   CR3 means nothing here. */
static void behaviour_chooses_the_access(void **state)
{
	static const struct {
		unsigned dirty, access;
	} cases[] = {{DS_DIRTY_SET, ACCESS_WRITE | ACCESS_OVERRIDE},
		     {DS_DIRTY_LEFT_CLEAR, ACCESS_WRITE | ACCESS_OVERRIDE | ACCESS_UNMARKED},
		     {DS_DIRTY_DROPS_RECORD, ACCESS_WRITE | ACCESS_OVERRIDE | ACCESS_DIRTY}};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		rig_reset(NULL);
		rig.silicon.ds.behaviour.dirty = cases[i].dirty;
		rig.vcpu.cr3 = 0x3;
		rig_configure(4 * RIG_RECORD, 5 * RIG_RECORD, RIG_ON);
		rig_branches(1, 1);
		assert_int_equal(rig.access, cases[i].access);
		assert_int_equal(rig_index(), 1);
	}
}

static bool write_debugctl(uint64_t value)
{
	return ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, value);
}

static void debugctl_refuses_reserved_bits(void **state)
{
	const uint64_t writable = 0x1fc3; /* with PDCM the FREEZE bits */
	uint64_t value;

	for (unsigned bit = 0; bit < 64; bit++)
		assert_int_equal(write_debugctl(1ull << bit), writable >> bit & 1);
	assert_true(write_debugctl(writable));
	assert_false(write_debugctl(writable | 1 << 5));
	assert_true(ds_read_msr(&rig.vcpu, RIG_DEBUGCTL, &value));
	assert_int_equal(value, writable);
}

static void ds_area_is_canonical(void **state)
{
	static const uint64_t good[] = {0, 0x00007fffffffffff, 0xffff800000000000, ~0ull};
	static const uint64_t bad[] = {0x0000800000000000, 0xffff7fffffffffff, 1ull << 63};
	uint64_t value;

	for (unsigned i = 0; i < 4; i++) {
		assert_true(ds_write_msr(&rig.vcpu, RIG_DS_AREA, good[i]));
		assert_true(ds_read_msr(&rig.vcpu, RIG_DS_AREA, &value));
		assert_int_equal(value, good[i]);
	}
	for (unsigned i = 0; i < 3; i++)
		assert_false(ds_write_msr(&rig.vcpu, RIG_DS_AREA, bad[i]));
	assert_true(ds_read_msr(&rig.vcpu, RIG_DS_AREA, &value));
	assert_int_equal(value, ~0ull);
}

static void debug_exception_clears_lbr_only(void **state)
{
	write_debugctl(RIG_ON | 1);
	trace_debug_exception(&rig.vcpu);
	assert_int_equal(rig.vcpu.debugctl, RIG_ON);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(records_and_fields_may_straddle_pages, rig_reset),
		cmocka_unit_test_setup(absent_pages_lose_the_record, rig_reset),
		cmocka_unit_test_setup(half_absent_record_is_lost, rig_reset),
		cmocka_unit_test_setup(translations_are_remembered_until_forgotten, rig_reset),
		cmocka_unit_test_setup(devices_are_not_touched, rig_reset),
		cmocka_unit_test_setup(behaviour_chooses_the_access, rig_reset),
		cmocka_unit_test_setup(debugctl_refuses_reserved_bits, rig_reset),
		cmocka_unit_test_setup(ds_area_is_canonical, rig_reset),
		cmocka_unit_test_setup(debug_exception_clears_lbr_only, rig_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

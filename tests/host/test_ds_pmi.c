/* SPDX-License-Identifier: MIT */
/* sources: drivers/ds/switch.c drivers/ds/lease.c drivers/ds/pmi.c drivers/ds/pebs.c */
/* sources: drivers/ds/init.c drivers/ds/probe.c drivers/ds/area.c drivers/ds/record.c */
/* sources: drivers/ds/configuration.c tests/host/fake_cpu.c */
#include "tests/host/ds_fixture.h"

enum { EVERYTHING = DS_USER | DS_KERNEL, THRESHOLD = RECORDS - MARGIN };

static int with_leases(void **state)
{
	start(state);
	request(&a, &memory_a, DS_O_SIGNAL, EVERYTHING);
	request(&b, &memory_b, DS_O_SIGNAL, EVERYTHING);
	return 0;
}

static void one_below_the_threshold(void **state)
{
	ds_switch(&cpu, &a);
	branches(THRESHOLD - 1);
	assert_false(ds_pmi(&cpu));
	assert_false(a.overflowed);
	assert_int_equal(ds_get_bts_index(a.area), THRESHOLD - 1);
	assert_int_equal(ds_get_overflow(a.area), DS_O_SIGNAL);
}

/* Paused while it looks. */
static void at_the_threshold(void **state)
{
	ds_switch(&cpu, &a);
	branches(THRESHOLD);
	fake_log_clear();
	assert_true(ds_pmi(&cpu));
	assert_true(a.overflowed);
	assert_writes({IA32_DEBUGCTL, BTS | BTINT}, {IA32_DEBUGCTL, TR | BTS | BTINT});
}

/* A level-triggered entry that is raised again, or another record, is no news; the margin fills. */
static void parks_the_threshold(void **state)
{
	uint64_t maximum = ds_get(a.area, DS_BTS_ABSOLUTE_MAXIMUM);

	ds_switch(&cpu, &a);
	branches(THRESHOLD);
	assert_true(ds_pmi(&cpu));
	assert_true(ds_get(a.area, DS_BTS_INTERRUPT_THRESHOLD) > maximum);
	assert_false(ds_pmi(&cpu));
	store_record(a.area, 1);
	assert_int_equal(ds_get_bts_index(a.area), THRESHOLD + 1);
	assert_false(ds_pmi(&cpu));
}

static void ignore(void *argument, const void *area, size_t count, bool full)
{
	*(size_t *)argument = count;
}

static void tells_again_after_a_drain(void **state)
{
	size_t count = 0;

	ds_switch(&cpu, &a);
	for (unsigned round = 0; round < 3; round++) {
		branches(THRESHOLD);
		assert_true(ds_pmi(&cpu));
		assert_int_equal(ds_drain(&cpu, &a, ignore, &count), THRESHOLD);
		assert_int_equal(count, THRESHOLD);
		assert_false(a.overflowed);
		assert_false(ds_pmi(&cpu));
	}
}

static void not_ours(void **state)
{
	assert_false(ds_pmi(&cpu));
	assert_no_writes();
}

static void a_circular_lease_is_never_the_cause(void **state)
{
	ds_release_bts(&cpu, &a);
	request(&a, &memory_a, DS_O_WRAP, EVERYTHING);
	ds_switch(&cpu, &a);
	branches(2 * RECORDS + THRESHOLD);
	assert_false(ds_pmi(&cpu));
	assert_false(a.overflowed);
}

/*
 * The interrupt of a lease that left may come at any point of the switch. Wherever it does, it or
 * the switch tells of the overflow, exactly once, and the lease that comes is not blamed.
 */
static unsigned access_to_interrupt, accesses, told;

static void late_interrupt(void)
{
	if (accesses++ == access_to_interrupt)
		told += ds_pmi(&cpu);
}

static void switch_with_interrupt_at(unsigned access, struct ds_lease *next, unsigned writes)
{
	with_leases(NULL);
	ds_switch(&cpu, &a);
	branches(THRESHOLD + 1);
	access_to_interrupt = access;
	accesses = told = 0;
	fake_cpu.before = late_interrupt;
	told += ds_switch(&cpu, next);
	fake_cpu.before = NULL;
	assert_int_equal(accesses, writes);
	told += ds_pmi(&cpu); /* or only after it */
	assert_int_equal(told, 1);
	assert_true(a.overflowed);
	assert_false(b.overflowed);
	assert_ptr_equal(cpu.loaded, next);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, next ? TR | BTS | BTINT : 0);
	assert_int_equal(fake_msr(IA32_DS_AREA)->value, next ? area_of(&b) : (uintptr_t)idle.area);
}

static void pending_at_a_switch(void **state)
{
	for (unsigned access = 0; access <= 3; access++)
		switch_with_interrupt_at(access, &b, 3);
	for (unsigned access = 0; access <= 2; access++)
		switch_with_interrupt_at(access, NULL, 2);
}

/* The same for a drain: nothing is told of a buffer that was emptied in the meantime. */
static void pending_at_a_drain(void **state)
{
	size_t count;

	for (unsigned access = 0; access < 3; access++) {
		with_leases(NULL);
		ds_switch(&cpu, &a);
		branches(THRESHOLD + 1);
		access_to_interrupt = access;
		accesses = told = 0;
		fake_cpu.before = late_interrupt;
		assert_int_equal(ds_drain(&cpu, &a, ignore, &count), THRESHOLD + 1);
		fake_cpu.before = NULL;
		assert_int_equal(accesses, 3); /* RDMSR, off, on */
		assert_false(ds_pmi(&cpu));
		assert_int_equal(told, access < 2);
		assert_false(a.overflowed);
		assert_int_equal(ds_get_overflow(a.area), DS_O_SIGNAL);
		assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, TR | BTS | BTINT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(one_below_the_threshold, with_leases),
		cmocka_unit_test_setup(at_the_threshold, with_leases),
		cmocka_unit_test_setup(parks_the_threshold, with_leases),
		cmocka_unit_test_setup(tells_again_after_a_drain, with_leases),
		cmocka_unit_test_setup(not_ours, with_leases),
		cmocka_unit_test_setup(a_circular_lease_is_never_the_cause, with_leases),
		cmocka_unit_test_setup(pending_at_a_switch, with_leases),
		cmocka_unit_test_setup(pending_at_a_drain, with_leases),
	};

	return cmocka_run_group_tests_name("ds_pmi", tests, NULL, NULL);
}

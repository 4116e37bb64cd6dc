/* SPDX-License-Identifier: MIT */
/* sources: drivers/ds/configuration.c */
#include "drivers/ds/configuration.h"

#include "drivers/cpuid.h"
#include "tests/host/host.h"

/* CPUID.1:EAX of real processors, and the row that they belong to. */
static void rows_by_signature(void **state)
{
	static const struct {
		uint32_t signature;
		const char *name;
	} known[] = {
		{0x00000f12, "NetBurst"},
		{0x00000f41, "NetBurst"},
		{0x00000f64, "NetBurst"},
		{0x00000695, "Pentium M"},
		{0x000006d8, "Pentium M"},
		{0x000006ec, "Core Duo"},
		{0x000006f6, "Core 2"},
		{0x0001067a, "Core 2"},
		{0x000106c2, "Atom"},
		{0x00030678, "Atom"},
		{0x000506c9, "Atom"},
		{0x000706a1, "Nehalem and later"}, /* Goldmont Plus: PEBS on every counter */
		{0x000106a5, "Nehalem and later"},
		{0x000206a7, "Nehalem and later"},
		{0x000906ea, "Nehalem and later"},
		{0x000c0662, "Nehalem and later"},
		{0x00130f00, "Nehalem and later"},
	};

	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct cpuid_signature s = cpuid_signature(known[i].signature);

		assert_string_equal(ds_find_configuration(s.family, s.model)->name, known[i].name);
	}
}

static void bits_of_the_manual(void **state)
{
	const struct ds_configuration *netburst = ds_find_configuration(15, 4);
	const struct ds_configuration *pentium_m = ds_find_configuration(6, 0x0d);
	const struct ds_configuration *core_duo = ds_find_configuration(6, 0x0e);
	const struct ds_configuration *core_2 = ds_find_configuration(6, 0x0f);
	const struct ds_configuration *nehalem = ds_find_configuration(6, 0x1a);

	assert_int_equal(netburst->tr | netburst->bts, 0x0c);
	assert_int_equal(netburst->tr | netburst->bts | netburst->btint | netburst->off_os, 0x3c);
	assert_int_equal(netburst->off_usr, 0x40);
	assert_int_equal(netburst->predicted, 0x10);
	assert_int_equal(pentium_m->tr | pentium_m->bts | pentium_m->btint, 0x1c0);
	assert_int_equal(pentium_m->off_os | pentium_m->off_usr, 0);
	assert_int_equal(core_duo->tr | core_duo->bts | core_duo->btint, 0x1c0);
	assert_int_equal(core_duo->off_os | core_duo->off_usr, 0);
	assert_int_equal(core_2->tr | core_2->bts | core_2->btint | core_2->off_os, 0x3c0);
	assert_int_equal(core_2->off_usr, 0x400);
	assert_int_equal(nehalem->tr, 0x40);
	assert_int_equal(nehalem->bts, 0x80);
	assert_int_equal(nehalem->btint, 0x100);
	assert_int_equal(nehalem->off_os, 0x200);
	assert_int_equal(nehalem->off_usr, 0x400);
	assert_int_equal(nehalem->predicted, 0);
}

static void a_record_is_three_fields(void **state)
{
	for (unsigned family = 6; family <= 15; family += 9) {
		for (unsigned model = 0; model < 256; model++) {
			const struct ds_configuration *c = ds_find_configuration(family, model);

			assert_int_equal(c->record_size, 3 * c->field_size);
		}
	}
	assert_int_equal(ds_find_configuration(6, 0x0e)->field_size, 4);
	assert_int_equal(ds_find_configuration(15, 0)->field_size, 8);
}

/* SDM Vol 3, 36.3.1.2 lists the models. */
static void suspended_by_processor_trace(void **state)
{
	assert_true(ds_is_suspended_by_pt(6, 0x3d));
	assert_true(ds_is_suspended_by_pt(6, 0x5e));
	assert_false(ds_is_suspended_by_pt(6, 0x7e));
	assert_false(ds_is_suspended_by_pt(6, 0x1a));
	assert_false(ds_is_suspended_by_pt(15, 0x3d));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_by_signature),
		cmocka_unit_test(bits_of_the_manual),
		cmocka_unit_test(a_record_is_three_fields),
		cmocka_unit_test(suspended_by_processor_trace),
	};

	return cmocka_run_group_tests_name("ds_configuration", tests, NULL, NULL);
}

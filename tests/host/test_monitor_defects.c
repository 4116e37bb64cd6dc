/* SPDX-License-Identifier: MIT */
/* sources: monitor/pebs/?*.c monitor/pmu/?*.c monitor/pt/?*.c */
/* sources: monitor/ds/?*.c monitor/trace.c monitor/profile.c monitor/defects/[a-z]*.c */
/* sources: monitor/errata/[a-z]*.c */
#include "monitor/defects/defect.h"
#include "tests/host/monitor_ds_rig.h"

enum { BRANCHES = 400 };

static struct silicon clean(void)
{
	struct silicon silicon = {.pmu = pmu_clean, .pebs = pebs_clean, .pt = pt_clean};

	ds_make(&silicon.ds, &(struct ds_behaviour){0});
	return silicon;
}

static void every_defect_is_described(void **state)
{
	const struct defect *defect;
	unsigned n;

	for (n = 0; (defect = defect_get(n)); n++) {
		assert_true(strspn(defect->name, "abcdefghijklmnopqrstuvwxyz0123456789_") ==
			    strlen(defect->name));
		assert_true(strstr(defect->rule, "SDM Vol ") || strstr(defect->rule, "Linux "));
		assert_true(strlen(defect->says) > 10);
		struct silicon silicon = clean();

		defect->break_rules(&silicon);
		assert_true(memcmp(&silicon.ds.rules, &ds_clean, sizeof(ds_clean)) ||
			    memcmp(&silicon.pmu, &pmu_clean, sizeof(pmu_clean)) ||
			    memcmp(&silicon.pebs, &pebs_clean, sizeof(pebs_clean)) ||
			    memcmp(&silicon.pt, &pt_clean, sizeof(pt_clean)));
	}
	assert_true(n >= 60);
}

static void a_name_finds_its_defect(void **state)
{
	const struct defect *defect;

	for (unsigned n = 0; (defect = defect_get(n)); n++)
		assert_ptr_equal(defect_find(defect->name), defect);
	assert_null(defect_find(""));
	assert_null(defect_find("none_such"));
}

/* Branches of all kinds, at both levels, while the index goes round. */
static void exercise(void)
{
	for (uint64_t n = 1; n <= BRANCHES; n++) {
		struct branch event = {.from = n,
				       .to = n + 0x1000,
				       .to_cpl = n % 2 ? 3 : 0,
				       .cause = 1 + n % 4,
				       .vector = (uint8_t)(n % 20),
				       .return_rip = n + 1};

		rig_branches(n, 1);
		rig_branch(0x7fff00000000 + n, n, 3, 3);
		saw_event(&rig.vcpu, &event);
		ds_note(&rig.vcpu, (enum ds_occasion)(n % 3));
		ds_deliver(&rig.vcpu, (uint32_t)n << 8);
	}
}

static const struct defect *nth(unsigned n)
{
	unsigned defects = 0;

	while (defect_get(defects))
		defects++;
	return n < defects ? defect_get(n) : erratum_get(n - defects);
}

/* Wrong it may be, but in the guest's memory, not in the monitor's: the sanitizers look on. */
static void no_defect_harms_the_monitor(void **state)
{
	static const uint64_t controls[] = {RIG_ON, RIG_ON | RIG_BTINT, RIG_ON | RIG_OFF_OS,
					    RIG_ON | RIG_OFF_USR};
	const struct defect *defect;

	for (unsigned n = 0; (defect = nth(n)); n++)
		for (unsigned i = 0; i < sizeof(controls) / sizeof(controls[0]); i++) {
			uint64_t value;

			rig_reset(NULL);
			rig_make(0, &(struct ds_behaviour){0}, defect->break_rules);
			rig_put(rig.area, rig.base);
			rig_put(rig.area + 8, rig.base);
			rig_put(rig.area + 16, rig.base + 40 * RIG_RECORD);
			rig_put(rig.area + 24, rig.base + 20 * RIG_RECORD);
			ds_enumerate(&rig.vcpu);
			ds_write_msr(&rig.vcpu, RIG_DS_AREA, rig.area);
			ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, controls[i]);
			exercise();
			ds_read_msr(&rig.vcpu, RIG_DEBUGCTL, &value);
			ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, 0);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_defect_is_described),
		cmocka_unit_test(a_name_finds_its_defect),
		cmocka_unit_test(no_defect_harms_the_monitor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

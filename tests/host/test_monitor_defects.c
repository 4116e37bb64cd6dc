// SPDX-License-Identifier: MIT
/* sources: tests/host/monitor_ds_rig.c */
/* sources: monitor/lbr/?*.c monitor/pebs/?*.c monitor/pmu/?*.c monitor/pt/?*.c monitor/ds/?*.c */
/* sources: monitor/ds/defects/?*.c monitor/trace.c monitor/unit*.c monitor/profile.c */
#include "monitor/defect.h"
#include "monitor/pmu/pmu.h"
#include "monitor/profile.h"
#include "monitor/unit.h"
#include "tests/host/monitor_ds_rig.h"

#include <stdio.h>
#include <string.h>

enum { BRANCHES = 400 };

static struct silicon clean(void)
{
	struct silicon silicon = {0};

	silicon_make(&silicon, profile_get(0), &(struct behaviour){0});
	return silicon;
}

UNIT(every_defect_is_described)
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
		assert_true(silicon.unnoticed ||
			    memcmp(&silicon.ds.rules, &ds_clean, sizeof(ds_clean)) ||
			    memcmp(&silicon.pmu, &pmu_clean, sizeof(pmu_clean)) ||
			    memcmp(&silicon.pebs, &pebs_clean, sizeof(pebs_clean)) ||
			    memcmp(&silicon.lbr, &lbr_clean, sizeof(lbr_clean)) ||
			    memcmp(&silicon.pt, &pt_clean, sizeof(pt_clean)));
	}
	assert_true(n >= 60);
}

UNIT(a_name_finds_its_defect)
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
UNIT(no_defect_harms_the_monitor)
{
	static const uint64_t controls[] = {RIG_ON, RIG_ON | RIG_BTINT, RIG_ON | RIG_OFF_OS,
					    RIG_ON | RIG_OFF_USR};
	const struct defect *defect;

	for (unsigned n = 0; (defect = nth(n)); n++)
		for (unsigned i = 0; i < sizeof(controls) / sizeof(controls[0]); i++) {
			uint64_t value;

			rig_reset(NULL);
			rig_make("nehalem", &(struct behaviour){0}, defect->break_rules);
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

static const struct behaviour defaults;

static bool apply(struct behaviour *behaviour, const struct variant *variant)
{
	char word[80];

	snprintf(word, sizeof(word), "%s=%s", variant->point, variant->choice);
	return variant_apply(behaviour, word);
}

UNIT(every_variant_changes_one_point)
{
	struct variant variant;
	unsigned n;

	for (n = 0; variant_get(n, &variant); n++) {
		struct behaviour behaviour = defaults;
		unsigned changed = 0;

		assert_true(apply(&behaviour, &variant));
		for (size_t at = 0; at < sizeof(behaviour); at += sizeof(unsigned))
			changed += memcmp((char *)&behaviour + at, (char *)&defaults + at,
					  sizeof(unsigned)) != 0;
		assert_int_equal(changed, !variant.is_default);
		assert_true(strlen(variant.meaning) > 10);
	}
	assert_true(n > 40);
}

UNIT(each_point_has_one_default_and_another_choice)
{
	struct variant variant, next;

	for (unsigned n = 0; variant_get(n, &variant); n++)
		if (variant.is_default) {
			assert_true(variant_get(n + 1, &next));
			assert_string_equal(next.point, variant.point);
			assert_false(next.is_default);
		}
}

UNIT(the_default_can_be_chosen_again)
{
	struct behaviour behaviour = {0};

	assert_true(variant_apply(&behaviour, "full=write-on"));
	assert_int_equal(behaviour.ds.full, DS_FULL_WRITE);
	assert_true(variant_apply(&behaviour, "full=stop"));
	assert_memory_equal(&behaviour, &defaults, sizeof(behaviour));
}

UNIT(what_is_no_variant_changes_nothing)
{
	static const char *const words[] = {"",		  "=",		"full",
					    "full=",	  "full=stop ", "ful=stop",
					    "fulll=stop", "full=Stop",	"full=stop=stop"};
	struct behaviour behaviour = {0};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		assert_false(variant_apply(&behaviour, words[i]));
	assert_memory_equal(&behaviour, &defaults, sizeof(behaviour));
}

/* As the local APIC does it: an interrupt of `status` while the entry is masked, which is then
   unmasked. Returns how many were asked for again. */
static unsigned unmask_after(const char *profile, uint64_t pebs, uint64_t event_select,
			     uint64_t status)
{
	struct behaviour behaviour;
	unsigned before;

	rig_reset(NULL);
	behaviour_of_profile(&behaviour, profile_find(profile));
	rig_make(profile, &behaviour, NULL);
	rig.vcpu.pebs.enable = pebs;
	rig.vcpu.pmu.event_select[0] = event_select;
	rig.vcpu.pmu.global_status = status;
	rig.vcpu.pmu.masked = ds_deliver(&rig.vcpu, LVT_MASKED | LVT_NMI).waits;
	before = rig.interrupts;
	pmu_unmasked(&rig.vcpu);
	pmu_unmasked(&rig.vcpu);
	return rig.interrupts - before;
}

UNIT(a_masked_interrupt_waits_from_haswell_on)
{
	const struct profile *profile;

	for (unsigned n = 0; (profile = profile_get(n)); n++) {
		static const char *const waiting[] = {"haswell", "broadwell", "skylake", "icelake",
						      "sapphire-rapids"};
		unsigned waits = 0;

		for (unsigned i = 0; i < 5; i++)
			waits |= !strcmp(profile->name, waiting[i]);
		assert_int_equal(unmask_after(profile->name, 1, 0, 1ull << 62), waits);
	}
}

UNIT(a_masked_interrupt_waits_for_its_cause_alone)
{
	enum { INTERRUPT = 1 << 20 };

	assert_int_equal(unmask_after("icelake", 1, 0, 0), 0);
	assert_int_equal(unmask_after("icelake", 1, 0, 1ull << 62), 1);
	assert_int_equal(unmask_after("icelake", 0, 0, 1ull << 62), 0); /* of BTS */
	assert_int_equal(unmask_after("icelake", 0, 0, 1ull << 55), 1);
	assert_int_equal(unmask_after("icelake", 0, INTERRUPT, 1), 1);
	assert_int_equal(unmask_after("icelake", 0, 0, 1), 0);
	assert_int_equal(unmask_after("icelake", 0, INTERRUPT, 2), 0);
	assert_false(ds_deliver(&rig.vcpu, LVT_NMI).waits);
}

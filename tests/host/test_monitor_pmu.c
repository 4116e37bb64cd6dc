// SPDX-License-Identifier: MIT
/* sources: tests/host/monitor_ds_rig.c */
/* sources: monitor/lbr/?*.c monitor/pebs/?*.c monitor/pmu/?*.c monitor/pt/?*.c monitor/ds/?*.c */
/* sources: monitor/ds/defects/?*.c monitor/trace.c monitor/unit*.c monitor/profile.c */
/* The rules of the counters, with instructions that the test makes up. */
#include "monitor/pmu/rules.h"
#include "tests/host/monitor_ds_rig.h"

static void of_profile(const char *profile)
{
	rig_reset(NULL);
	rig_make(profile, &(struct behaviour){0}, NULL);
}

static uint64_t get(uint32_t index)
{
	uint64_t value;

	assert_true(unit_of_msr(index)->read_msr(&rig.vcpu, index, &value));
	return value;
}

static void put(uint32_t index, uint64_t value)
{
	assert_true(trace_write_msr(&rig.vcpu, index, value));
}

static void retire(unsigned kind, uint64_t from, uint64_t to, unsigned cpl)
{
	struct retired retired = {
		.from = from, .to = to, .from_cpl = cpl, .to_cpl = cpl, .kind = RETIRED | kind};

	if (rig.vcpu.observed & OBSERVER_PMU)
		saw_retired(&rig.vcpu, &retired);
}

/* AnyThread; no counters at all. */
UNIT(registers_follow_the_version)
{
	uint64_t value;

	of_profile("merom");
	assert_false(trace_write_msr(&rig.vcpu, 0x186, 1 << 21));
	of_profile("skylake");
	put(0x186, 1 << 21);
	of_profile("icelake");
	assert_false(trace_write_msr(&rig.vcpu, 0x186, 1 << 21));
	of_profile("netburst");
	for (uint32_t index = 0; index < 0x1da; index++)
		assert_false(pmu_read_msr(&rig.vcpu, index, &value));
}

/* Both enables, a known event, a privilege level: all of them, and only then. */
UNIT(the_interpreter_is_needed_while_it_counts)
{
	static const uint64_t unneeded[] = {0x0300c0, 0x4000c0, 0x434f2e, 0x43003c};

	of_profile("nehalem");
	put(0x38f, 0xe);
	put(0x186, 0x4300c0);
	assert_false(rig.vcpu.observed);
	put(0x38f, 1);
	assert_true(rig.vcpu.observed & OBSERVER_PMU);
	for (unsigned i = 0; i < sizeof(unneeded) / sizeof(unneeded[0]); i++) {
		put(0x186, unneeded[i]);
		assert_false(rig.vcpu.observed);
	}
	put(0x186, 0x42003c); /* cycles of CPL 0 alone */
	assert_true(rig.vcpu.observed & OBSERVER_PMU);
	put(0x38f, 0);
	assert_false(rig.vcpu.observed);
}

static unsigned levels_with(uint64_t select, uint64_t fixed, uint64_t lbr)
{
	of_profile("skylake");
	rig.vcpu.native_ring_0 = true;
	put(0x1c8, lbr);
	assert_true(ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, lbr ? 1 : 0));
	put(0x186, select);
	put(0x38d, fixed);
	put(0x38f, 1 | 7ull << 32);
	return observed_levels(&rig.vcpu);
}

static unsigned broken_occurs(const struct vcpu *vcpu, unsigned n, const struct retired *retired)
{
	return pmu_clean.occurs(vcpu, n, retired);
}

static bool broken_arms(const struct vcpu *vcpu, unsigned n)
{
	return pebs_clean.arms(vcpu, n);
}

/* The code of a level that no counter, no LBR stack and no BTS is for may run natively. */
UNIT(levels_are_those_that_count)
{
	assert_int_equal(levels_with(0x4100c0, 0, 0), 0xe);
	rig.vcpu.native_ring_0 = false;
	assert_int_equal(observed_levels(&rig.vcpu), 0xf);
	assert_int_equal(levels_with(0x4200c0, 0, 0), 0x1);
	assert_int_equal(levels_with(0x4300c0, 0, 0), 0xf);
	assert_int_equal(levels_with(0x4100c0, 1, 0), 0xf);
	assert_int_equal(levels_with(0x4100c0, 2, 0), 0xe);
	assert_int_equal(levels_with(0x4100c0, 0x30, 0), 0xe); /* cycles of both */
	assert_int_equal(levels_with(0x41003c, 0, 0), 0xe);
	assert_int_equal(levels_with(0x41003c, 0x10, 0), 0xf);
	assert_int_equal(levels_with(0, 0x30, 0), 0);
	assert_int_equal(levels_with(0, 0, 1), 0xe);
	assert_int_equal(levels_with(0, 0, 2), 0x1);
	assert_int_equal(levels_with(0x4100c0, 0, 2), 0xf);
	assert_int_equal(levels_with(0, 0, 4), 0xf);
	assert_int_equal(levels_with(0, 0, 1), 0xe);
	put(0x1c8, 2); /* while it runs */
	assert_int_equal(observed_levels(&rig.vcpu), 0x1);
	assert_int_equal(levels_with(0x4100c0, 0, 0), 0xe);
	assert_true(ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, RIG_ON | RIG_OFF_USR));
	assert_int_equal(observed_levels(&rig.vcpu), 0xf);
}

/* A replacement of a rule of the counters or of PEBS may look at every instruction. */
UNIT(replaced_rules_see_every_level)
{
	assert_int_equal(levels_with(0x4100c0, 0, 0), 0xe);
	rig.silicon.pmu.occurs = broken_occurs;
	put(0x186, 0x4100c0);
	assert_int_equal(observed_levels(&rig.vcpu), 0xf);
	assert_int_equal(levels_with(0x4100c0, 0, 0), 0xe);
	rig.silicon.pebs.arms = broken_arms;
	put(0x186, 0x4100c0);
	assert_int_equal(observed_levels(&rig.vcpu), 0xf);
}

/* SDM Vol 3, 17.4.7: cleared before version 4, told by the status from then on. */
UNIT(freezing_follows_the_version)
{
	of_profile("nehalem");
	assert_true(ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, 0x1801));
	put(0x186, 0x4300c0);
	put(0x38f, 1);
	pmu_interrupted(&rig.vcpu, false, false);
	assert_int_equal(get(0x38f), 1); /* the instruction under way counts yet */
	retire(0, 1, 2, 0);
	assert_int_equal(get(0x38f), 0);
	assert_int_equal(get(0xc1), 1);
	assert_int_equal(rig.vcpu.debugctl, 0x1800);
	put(0x38f, 1);
	pmu_interrupted(&rig.vcpu, false, false);
	pmu_pass(&rig.vcpu); /* none is under way */
	assert_int_equal(get(0x38f), 0);
	of_profile("skylake");
	assert_true(ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, 0x1801));
	put(0x186, 0x4300c0);
	put(0x38f, 1);
	pmu_interrupted(&rig.vcpu, false, false);
	retire(0, 1, 2, 0);
	retire(0, 2, 3, 0);
	assert_int_equal(get(0x38f), 1);
	assert_int_equal(get(0x38e), 3ull << 58);
	assert_int_equal(get(0xc1), 1);
	assert_false(rig.vcpu.observed);
	put(0x390, 3ull << 58);
	retire(0, 3, 4, 0);
	assert_int_equal(get(0xc1), 2);
}

UNIT(predictor_knows_the_last_way)
{
	const unsigned jcc = RETIRED_BRANCH | RETIRED_CONDITIONAL, taken = jcc | RETIRED_TAKEN;

	of_profile("nehalem");
	put(0x186, 0x4300c5);
	put(0x38f, 1);
	retire(jcc, 10, 12, 0); /* unknown, not taken: right */
	retire(taken, 10, 30, 0);
	retire(taken, 10 + PMU_PREDICTOR, 30, 3); /* unknown; another level's place */
	retire(taken, 10, 30, 0);
	retire(jcc, 10, 12, 0);
	retire(RETIRED_BRANCH | RETIRED_TAKEN, 70, 90, 0); /* direct */
	retire(RETIRED_BRANCH | RETIRED_TAKEN | RETIRED_RETURN, 75, 90, 0);
	retire(RETIRED_BRANCH | RETIRED_TAKEN | RETIRED_RETURN, 75, 90, 0);
	assert_int_equal(get(0xc1), 4);
}

UNIT(cycles_pass_but_not_in_hlt)
{
	uint64_t before;

	of_profile("nehalem");
	put(0x38d, 0x30);
	put(0x38f, 1ull << 33);
	assert_false(rig.vcpu.observed);
	before = get(0x30a);
	assert_true(get(0x30a) > before);
	pmu_wait(&rig.vcpu, true);
	before = get(0x30a);
	assert_int_equal(get(0x30a), before);
	pmu_wait(&rig.vcpu, false);
	assert_true(get(0x30a) > before);
}

/* Fixed counter 1 takes samples of the cycles at these levels, one each 20,000 at first. */
static void sample_cycles_of(uint64_t levels)
{
	enum { PEBS_FIELD = 4, RESET_OF_FIXED_1 = 17 };
	const uint64_t fields[] = {rig.base, rig.base, rig.base + 320, rig.base + 320};

	of_profile("icelake");
	rig.vcpu.cpl = 3;
	rig.vcpu.rip = 0x1230;
	assert_true(ds_write_msr(&rig.vcpu, RIG_DS_AREA, rig.area));
	for (unsigned i = 0; i < 4; i++)
		rig_put(rig.area + 8 * (PEBS_FIELD + i), fields[i]);
	rig_put(rig.area + 8 * RESET_OF_FIXED_1, (1ull << 48) - (1ull << 40));
	put(0x30a, (1ull << 48) - 20000);
	put(0x38d, levels << 4);
	assert_true(trace_write_msr(&rig.vcpu, 0x3f1, 1ull << 33));
	put(0x38f, 1ull << 33);
}

static void pass_20000_cycles(void)
{
	for (uint64_t start = __builtin_ia32_rdtsc(); __builtin_ia32_rdtsc() - start < 40000;)
		;
	pmu_tick(&rig.vcpu);
}

/* PEBS of any event is from format 4 on: Linux 6.1, perf_event.h. */
UNIT(cycles_are_sampled_where_the_program_is)
{
	sample_cycles_of(3);
	assert_false(rig.vcpu.observed);
	assert_in_range(pmu_deadline(&rig.vcpu) - rig.vcpu.pmu.clock, 1, 20000);
	assert_true(ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, 1)); /* not beside an LBR stack */
	assert_int_equal(pmu_deadline(&rig.vcpu), 0);
	pass_20000_cycles();
	assert_int_equal(rig_field(5), rig.base);
	assert_true(ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, 0));
	pass_20000_cycles();
	assert_int_equal(rig_field(5), rig.base + 32);
	assert_int_equal(rig_get(rig.base + 8), 0x1230);
	assert_int_equal(rig_get(rig.base + 16), 1ull << 33);
	assert_true(get(0x30a) >> 40 == 0xff); /* it has begun again */
	assert_int_equal(get(0x38e), 0);
	assert_false(rig.vcpu.observed);
	pmu_tick(&rig.vcpu);
	assert_int_equal(rig_field(5), rig.base + 32);
	put(0x30a, (1ull << 48) - 20000);
	rig.absent[1] = true; /* a native guest changes its tables unseen */
	pass_20000_cycles();
	assert_int_equal(rig_field(5), rig.base + 32);
}

/* The overflow of ring 3's cycles is found in ring 0. */
UNIT(cycles_of_one_level_are_sampled_there)
{
	sample_cycles_of(2);
	rig.vcpu.cpl = 0;
	pass_20000_cycles();
	assert_int_equal(rig_field(5), rig.base);
	assert_int_equal(get(0x38e), 1ull << 33);
	rig.vcpu.cpl = 3;
	rig.vcpu.rip = 0x5678;
	retire(0, 0x5670, 0x5678, 3);
	assert_int_equal(rig_field(5), rig.base + 32);
	assert_int_equal(rig_get(rig.base + 8), 0x5678);
}

static bool arms(const char *profile, uint64_t select)
{
	of_profile(profile);
	put(0x186, select);
	put(0x38f, 1);
	assert_true(trace_write_msr(&rig.vcpu, 0x3f1, 1));
	return pebs_arms(&rig.vcpu, 0);
}

/* Linux 6.1, ds.c, samples cycles by inverted events; it takes any event of skylake. */
UNIT(cycles_are_sampled_as_instructions)
{
	assert_true(arms("merom", 0x10c300c0) && arms("nehalem", 0x10c300c0));
	assert_true(arms("haswell", 0x10c301c2) && arms("skylake", 0x10c300c0));
	assert_false(arms("haswell", 0x10c300c0) || arms("nehalem", 0x43003c));
	assert_true(arms("icelake", 0x43003c) && arms("skylake", 0x4300c0) &&
		    arms("skylake", 0x4300c4));
}

UNIT(power_on_resets_what_init_leaves_alone)
{
	of_profile("nehalem");
	put(0xc1, 77);
	put(0x38f, 1);
	ds_init(&rig.vcpu);
	assert_true(get(0xc1) == 77 && get(0x38f) == 1);
	trace_power_on(&rig.vcpu, &rig.silicon);
	assert_true(get(0xc1) == 0 && get(0x38f) == 0xf);
}

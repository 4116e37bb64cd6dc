// SPDX-License-Identifier: MIT
/* sources: monitor/pebs/?*.c monitor/pmu/?*.c monitor/pt/?*.c monitor/ds/?*.c */
/* sources: monitor/ds/defects/?*.c monitor/trace.c monitor/unit*.c monitor/profile.c */
/* The rules of the counters and of the LBR stack, with instructions that the test makes up. */
#include "monitor/pmu/rules.h"
#include "tests/host/monitor_ds_rig.h"

enum { NEHALEM = 0, NETBURST = 1, MERON = 2, SKYLAKE = 5, HASWELL = 6, ICELAKE = 8 };

static void of_profile(unsigned profile)
{
	rig_reset(NULL);
	rig_make(profile, &(struct behaviour){0}, NULL);
}

static uint64_t get(uint32_t index)
{
	uint64_t value;

	assert_true(pmu_read_msr(&rig.vcpu, index, &value));
	return value;
}

static void put(uint32_t index, uint64_t value)
{
	assert_true(pmu_write_msr(&rig.vcpu, index, value));
}

static void retire(unsigned kind, uint64_t from, uint64_t to, unsigned cpl)
{
	struct retired retired = {
		.from = from, .to = to, .from_cpl = cpl, .to_cpl = cpl, .kind = RETIRED | kind};

	if (rig.vcpu.observed & OBSERVER_PMU)
		saw_retired(&rig.vcpu, &retired);
}

static void registers_keep_what_is_written(void **state)
{
	static const uint32_t registers[] = {0xc1, 0xc4, 0x186, 0x189, 0x309, 0x30b, 0x38d, 0x38f};

	of_profile(NEHALEM);
	for (unsigned i = 0; i < sizeof(registers) / sizeof(registers[0]); i++) {
		assert_true(unit_of_msr(registers[i]));
		put(registers[i], i % 3 + 1);
		assert_int_equal(get(registers[i]), i % 3 + 1);
	}
	assert_false(unit_of_msr(0xc0));
	assert_false(pmu_write_msr(&rig.vcpu, 0xc9, 0) || unit_of_msr(0xca));
}

static void status_is_read_only_and_reserved_bits_fault(void **state)
{
	of_profile(NEHALEM);
	assert_int_equal(get(0x38e), 0);
	assert_false(pmu_write_msr(&rig.vcpu, 0x38e, 0));
	put(0x390, 1ull << 62);
	assert_false(pmu_write_msr(&rig.vcpu, 0x390, 1ull << 40));
	put(0x38f, 0x70000000f);
	assert_false(pmu_write_msr(&rig.vcpu, 0x38f, 0x10));
	assert_false(pmu_write_msr(&rig.vcpu, 0x186, 1ull << 32));
	assert_false(pmu_write_msr(&rig.vcpu, 0xc5, 0));
}

/* Versions 2, 3, 4 and 5: AnyThread, the registers of version 4, full-width writes; none. */
static void registers_follow_the_version(void **state)
{
	of_profile(MERON);
	assert_false(pmu_write_msr(&rig.vcpu, 0x186, 1 << 21));
	assert_false(pmu_write_msr(&rig.vcpu, 0x391, 1));
	assert_false(pmu_write_msr(&rig.vcpu, 0x4c1, 1));
	of_profile(SKYLAKE);
	put(0x186, 1 << 21);
	put(0x391, 1ull << 59 | 2);
	assert_int_equal(get(0x38e), 1ull << 59 | 2);
	put(0x4c1, 0xffff12345678);
	assert_int_equal(get(0xc1), 0xffff12345678);
	assert_false(pmu_write_msr(&rig.vcpu, 0x4c1, 1ull << 48));
	put(0x186, 0x1000c0);
	assert_int_equal(get(0x392), 1ull << 63 | 1);
	of_profile(ICELAKE);
	assert_false(pmu_write_msr(&rig.vcpu, 0x186, 1 << 21));
	put(0x18d, 1ull << 34);
	of_profile(NETBURST);
	for (uint32_t index = 0; index < 0x600; index++) {
		uint64_t value;

		if (index < 0x1da)
			assert_false(pmu_read_msr(&rig.vcpu, index, &value));
	}
}

static void general_counters_extend_bit_31(void **state)
{
	uint64_t value;

	of_profile(NEHALEM);
	put(0xc1, 0xffffffff80000000);
	assert_int_equal(get(0xc1), 0xffff80000000);
	assert_true(pmu_read_counter(&rig.vcpu, 0, &value));
	assert_int_equal(value, 0xffff80000000);
}

static void rdpmc_selects(void **state)
{
	uint64_t value;

	of_profile(NEHALEM);
	put(0x30a, 1234);
	assert_true(pmu_read_counter(&rig.vcpu, 1u << 30 | 1, &value));
	assert_int_equal(value, 1234);
	assert_false(pmu_read_counter(&rig.vcpu, 4, &value));
	assert_false(pmu_read_counter(&rig.vcpu, 1u << 30 | PMU_FIXED, &value));
	assert_false(pmu_read_counter(&rig.vcpu, 1u << 31, &value));
}

/* Both enables, a known event, a privilege level: all of them, and only then. */
static void the_interpreter_is_needed_while_it_counts(void **state)
{
	static const uint64_t unneeded[] = {0x0300c0, 0x4000c0, 0x434f2e, 0x43003c};

	of_profile(NEHALEM);
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
	of_profile(SKYLAKE);
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
static void levels_are_those_that_count(void **state)
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
static void replaced_rules_see_every_level(void **state)
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

static void events_by_kind_and_privilege(void **state)
{
	of_profile(SKYLAKE);
	put(0x186, 0x4300c0); /* instructions */
	put(0x187, 0x4100c4); /* branches of ring 3 */
	put(0x188, 0x4320c4); /* taken near ones */
	put(0x189, 0x4340c4); /* far ones */
	put(0x38f, 15);
	retire(0, 100, 101, 0);
	retire(RETIRED_BRANCH, 101, 102, 0);
	retire(RETIRED_BRANCH | RETIRED_TAKEN, 102, 110, 3);
	retire(RETIRED_BRANCH | RETIRED_TAKEN | RETIRED_FAR, 110, 120, 3);
	assert_int_equal(get(0xc1), 4);
	assert_int_equal(get(0xc2), 2);
	assert_int_equal(get(0xc3), 1);
	assert_int_equal(get(0xc4), 1);
}

static void cmask_invert_and_edge(void **state)
{
	of_profile(SKYLAKE);
	put(0x186, 0x14300c4); /* CMASK 1: a cycle with a branch */
	put(0x187, 0x1c300c4); /* inverted: a cycle without */
	put(0x188, 0x24300c4); /* two in a cycle: none */
	put(0x189, 0x4700c4);  /* edges */
	put(0x38f, 15);
	for (unsigned i = 0; i < 10; i++)
		retire(i % 5 < 2 ? RETIRED_BRANCH : 0, i, i + 1, 0);
	assert_int_equal(get(0xc1), 4);
	assert_int_equal(get(0xc2), 6);
	assert_int_equal(get(0xc3), 0);
	assert_int_equal(get(0xc4), 2);
}

static void overflow_interrupts_where_it_shall(void **state)
{
	of_profile(NEHALEM);
	put(0x186, 0x5300c0);
	put(0x187, 0x4300c0);
	put(0xc1, (uint64_t)-3);
	put(0xc2, (uint64_t)-2);
	put(0x38f, 3);
	retire(0, 1, 2, 0);
	retire(0, 2, 3, 0);
	assert_int_equal(get(0x38e), 2);
	assert_int_equal(rig.interrupts, 0);
	retire(0, 3, 4, 0);
	assert_int_equal(get(0x38e), 3);
	assert_int_equal(rig.interrupts, 1);
	assert_int_equal(get(0xc1), 0);
	put(0x390, 1);
	assert_int_equal(get(0x38e), 2);
}

/* SDM Vol 3, 17.4.7: cleared before version 4, told by the status from then on. */
static void freezing_follows_the_version(void **state)
{
	of_profile(NEHALEM);
	assert_true(ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, 0x1801));
	put(0x186, 0x4300c0);
	put(0x38f, 1);
	pmu_interrupted(&rig.vcpu);
	assert_int_equal(get(0x38f), 1); /* the instruction under way counts yet */
	retire(0, 1, 2, 0);
	assert_int_equal(get(0x38f), 0);
	assert_int_equal(get(0xc1), 1);
	assert_int_equal(rig.vcpu.debugctl, 0x1800);
	put(0x38f, 1);
	pmu_interrupted(&rig.vcpu);
	pmu_pass(&rig.vcpu); /* none is under way */
	assert_int_equal(get(0x38f), 0);
	of_profile(SKYLAKE);
	assert_true(ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, 0x1801));
	put(0x186, 0x4300c0);
	put(0x38f, 1);
	pmu_interrupted(&rig.vcpu);
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

static void predictor_knows_the_last_way(void **state)
{
	const unsigned jcc = RETIRED_BRANCH | RETIRED_CONDITIONAL, taken = jcc | RETIRED_TAKEN;

	of_profile(NEHALEM);
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

static void cycles_pass_but_not_in_hlt(void **state)
{
	uint64_t before;

	of_profile(NEHALEM);
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

	of_profile(ICELAKE);
	rig.vcpu.cpl = 3;
	rig.vcpu.rip = 0x1230;
	assert_true(ds_write_msr(&rig.vcpu, RIG_DS_AREA, rig.area));
	for (unsigned i = 0; i < 4; i++)
		rig_put(rig.area + 8 * (PEBS_FIELD + i), fields[i]);
	rig_put(rig.area + 8 * RESET_OF_FIXED_1, (1ull << 48) - (1ull << 40));
	put(0x30a, (1ull << 48) - 20000);
	put(0x38d, levels << 4);
	assert_true(pebs_write_msr(&rig.vcpu, 0x3f1, 1ull << 33));
	put(0x38f, 1ull << 33);
}

static void pass_20000_cycles(void)
{
	for (uint64_t start = __builtin_ia32_rdtsc(); __builtin_ia32_rdtsc() - start < 40000;)
		;
	pmu_tick(&rig.vcpu);
}

/* PEBS of any event is from format 4 on: Linux 6.1, perf_event.h. */
static void cycles_are_sampled_where_the_program_is(void **state)
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
static void cycles_of_one_level_are_sampled_there(void **state)
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

static bool arms(unsigned profile, uint64_t select)
{
	of_profile(profile);
	put(0x186, select);
	put(0x38f, 1);
	assert_true(pebs_write_msr(&rig.vcpu, 0x3f1, 1));
	return pebs_arms(&rig.vcpu, 0);
}

/* Linux 6.1, ds.c, samples cycles by inverted events; it takes any event of skylake. */
static void cycles_are_sampled_as_instructions(void **state)
{
	assert_true(arms(MERON, 0x10c300c0) && arms(NEHALEM, 0x10c300c0));
	assert_true(arms(HASWELL, 0x10c301c2) && arms(SKYLAKE, 0x10c300c0));
	assert_false(arms(HASWELL, 0x10c300c0) || arms(NEHALEM, 0x43003c));
	assert_true(arms(ICELAKE, 0x43003c) && arms(SKYLAKE, 0x4300c0) && arms(SKYLAKE, 0x4300c4));
}

static void power_on_resets_what_init_leaves_alone(void **state)
{
	of_profile(NEHALEM);
	put(0xc1, 77);
	put(0x38f, 1);
	ds_init(&rig.vcpu);
	assert_true(get(0xc1) == 77 && get(0x38f) == 1);
	trace_power_on(&rig.vcpu, &rig.silicon);
	assert_true(get(0xc1) == 0 && get(0x38f) == 0xf);
}

static void jump(uint64_t from, unsigned kind)
{
	retire(RETIRED_BRANCH | RETIRED_TAKEN | kind, from, from + 0x1000, 0);
}

static void lbr_holds_the_newest(void **state)
{
	of_profile(NEHALEM);
	assert_true(ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, 1));
	assert_true(rig.vcpu.observed & OBSERVER_PMU);
	for (unsigned n = 1; n <= 20; n++)
		jump(n, 0);
	retire(RETIRED_BRANCH | RETIRED_CONDITIONAL, 50, 52, 0);
	assert_int_equal(get(0x1c9), 4);
	assert_int_equal(get(0x680 + 4), 20);
	assert_int_equal(get(0x6c0 + 4), 20 + 0x1000);
	assert_int_equal(get(0x680 + 5), 5);
	assert_true(ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, 0));
	assert_false(rig.vcpu.observed);
}

static void lbr_selects(void **state)
{
	of_profile(SKYLAKE);
	put(0x1c8, 1 << 2 | 1 << 8); /* neither Jcc nor far */
	assert_false(pmu_write_msr(&rig.vcpu, 0x1c8, 1 << 10));
	assert_true(ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, 1));
	jump(1, RETIRED_CONDITIONAL);
	jump(2, RETIRED_FAR);
	saw_event(&rig.vcpu, &(struct branch){.from = 3, .cause = CAUSE_INTERRUPT});
	assert_int_equal(get(0x1c9), 0);
	jump(4, RETIRED_CALL);
	assert_int_equal(get(0x1c9), 1);
	put(0x1c8, 0);
	saw_event(&rig.vcpu, &(struct branch){.from = 5, .to = 6, .cause = CAUSE_INTERRUPT});
	assert_int_equal(get(0x680 + 2), 5);
	saw_event(&rig.vcpu,
		  &(struct branch){.from = 7, .cause = CAUSE_EXCEPTION, .vector = VECTOR_DB});
	assert_int_equal(get(0x1c9), 2);
	assert_int_equal(rig.vcpu.debugctl, 0);
}

/* SDM Vol 3, 17.11.2: a return takes off what its call put on. */
static void lbr_as_call_stack(void **state)
{
	of_profile(SKYLAKE);
	put(0x1c8, 0x3c4);
	assert_true(ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, 1));
	jump(1, RETIRED_CALL);
	jump(2, RETIRED_CALL);
	jump(3, RETIRED_RETURN);
	assert_int_equal(get(0x1c9), 1);
	assert_int_equal(get(0x681), 1);
	assert_int_equal(get(0x682), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers_keep_what_is_written),
		cmocka_unit_test(status_is_read_only_and_reserved_bits_fault),
		cmocka_unit_test(registers_follow_the_version),
		cmocka_unit_test(general_counters_extend_bit_31),
		cmocka_unit_test(rdpmc_selects),
		cmocka_unit_test(the_interpreter_is_needed_while_it_counts),
		cmocka_unit_test(levels_are_those_that_count),
		cmocka_unit_test(replaced_rules_see_every_level),
		cmocka_unit_test(events_by_kind_and_privilege),
		cmocka_unit_test(cmask_invert_and_edge),
		cmocka_unit_test(overflow_interrupts_where_it_shall),
		cmocka_unit_test(freezing_follows_the_version),
		cmocka_unit_test(predictor_knows_the_last_way),
		cmocka_unit_test(cycles_pass_but_not_in_hlt),
		cmocka_unit_test(cycles_are_sampled_where_the_program_is),
		cmocka_unit_test(cycles_of_one_level_are_sampled_there),
		cmocka_unit_test(cycles_are_sampled_as_instructions),
		cmocka_unit_test(power_on_resets_what_init_leaves_alone),
		cmocka_unit_test(lbr_holds_the_newest),
		cmocka_unit_test(lbr_selects),
		cmocka_unit_test(lbr_as_call_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: MIT
/* sources: tests/host/monitor_ds_rig.c monitor/lbr/?*.c */
/* sources: monitor/pebs/?*.c monitor/pmu/?*.c monitor/pt/?*.c monitor/ds/?*.c */
/* sources: monitor/ds/defects/?*.c monitor/trace.c monitor/unit*.c monitor/profile.c */
/* The rules of architectural last branch records, with instructions that the test makes up. */
#include <string.h>

#include "monitor/lbr/rules.h"
#include "tests/host/monitor_ds_rig.h"

enum { FROM = 0x1500, TO = 0x1600, INFO = 0x1200, CTL = 0x14ce, DEPTH = 0x14cf };
enum { EVERY_KIND = 0x7f0000, OS = 2, USR = 4, CALL_STACK = 8, BOTH = EVERY_KIND | OS | USR | 1 };
enum {
	JCC = RETIRED_BRANCH | RETIRED_TAKEN | RETIRED_CONDITIONAL,
	JMP = RETIRED_BRANCH | RETIRED_TAKEN,
	CALL = JMP | RETIRED_CALL,
	RET = JMP | RETIRED_RETURN,
	FAR = JMP | RETIRED_FAR,
};

static void prepare(const struct lbr_behaviour *behaviour)
{
	rig_reset(NULL);
	rig_make("sapphire-rapids",
		 &(struct behaviour){.lbr = behaviour ? *behaviour : (struct lbr_behaviour){0}},
		 NULL);
}

static bool try(uint32_t index, uint64_t value)
{
	return trace_write_msr(&rig.vcpu, index, value);
}

static void put(uint32_t index, uint64_t value)
{
	assert_true(try(index, value));
}

static bool has(uint32_t index)
{
	uint64_t value;

	return unit_of_msr(index)->read_msr(&rig.vcpu, index, &value);
}

static uint64_t get(uint32_t index)
{
	uint64_t value;

	assert_true(unit_of_msr(index)->read_msr(&rig.vcpu, index, &value));
	return value;
}

static void branch(unsigned kind, uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl)
{
	struct retired retired = {.from = from,
				  .to = to,
				  .from_cpl = from_cpl,
				  .to_cpl = to_cpl,
				  .length = 5,
				  .kind = RETIRED | kind};

	if (rig.vcpu.observed & OBSERVER_PMU)
		saw_retired(&rig.vcpu, &retired);
}

static void take(unsigned kind, uint64_t from, uint64_t to)
{
	branch(kind, from, to, 0, 0);
}

static void deliver(enum cause cause, uint8_t vector)
{
	saw_event(&rig.vcpu, &(struct branch){.from = 0x77,
					      .to = 0x88,
					      .cause = cause,
					      .vector = vector,
					      .return_rip = 0x77});
}

/* The rest of the monitor lets nothing of these leaves through. */
static void read_leaf(uint32_t leaf, uint32_t value[4])
{
	memset(value, 0, 4 * sizeof(value[0]));
	lbr_cpuid(&rig.vcpu, leaf, 0, value);
}

UNIT(cpuid_says_what_there_is)
{
	uint32_t value[4];

	prepare(NULL);
	read_leaf(7, value);
	assert_int_equal(value[3], 1 << 19);
	read_leaf(0x1c, value);
	assert_int_equal(value[0], 0xc000000b); /* 8, 16, 32 */
	assert_int_equal(value[1], 7);
	assert_int_equal(value[2], 7);
	assert_int_equal(value[3], 0);
	rig_make("skylake", &(struct behaviour){0}, NULL);
	read_leaf(7, value);
	assert_int_equal(value[3], 0);
	read_leaf(0x1c, value);
	assert_int_equal(value[0] | value[1] | value[2] | value[3], 0);
}

UNIT(registers_of_entries_follow_the_depth)
{
	prepare(NULL);
	assert_int_equal(get(DEPTH), 32);
	assert_true(has(FROM + 31) && has(TO + 31) && has(INFO + 31));
	put(DEPTH, 8);
	assert_true(has(FROM + 7) && has(TO + 7) && has(INFO + 7));
	assert_false(has(FROM + 8) || has(TO + 8) || has(INFO + 8));
	assert_false(try(FROM + 8, 0) || try(TO + 8, 0) || try(INFO + 8, 0));
	assert_false(try(DEPTH, 0) || try(DEPTH, 24) || try(DEPTH, 12) || try(DEPTH, 64));
	assert_false(try(DEPTH, 8 | 1ull << 32));
	assert_int_equal(get(DEPTH), 8);
	assert_false(has(0x1c8) || has(0x1c9) || has(0x680) || has(0xdc0));
}

/* Bits without a meaning of IA32_LBR_CTL fault, those of INFO do not. */
UNIT(reserved_bits)
{
	prepare(NULL);
	put(CTL, 0x7f000e);
	assert_int_equal(get(CTL), 0x7f000e);
	for (unsigned bit = 0; bit < 64; bit++)
		assert_int_equal(try(CTL, 1ull << bit), 0x7f000full >> bit & 1);
	put(INFO, ~0ull);
	assert_int_equal(get(INFO), 0xff0000000000ffff);
	put(0x1e0, ~0ull);
	put(FROM + 3, 0x800000000000);
	assert_int_equal(get(FROM + 3), 0xffff800000000000);
	prepare(&(struct lbr_behaviour){.address = LBR_ADDRESS_FAULTS});
	assert_false(try(FROM + 3, 0x800000000000) || try(0x1dd, 0x800000000000));
	put(TO, 0xffff800000000000);
}

UNIT(a_write_of_the_depth_clears_the_entries)
{
	prepare(NULL);
	put(0x1dd, 5);
	put(CTL, BOTH);
	for (unsigned n = 0; n < 40; n++)
		take(JMP, 0x1000 + n, 0x2000 + n);
	assert_int_equal(get(FROM), 0x1027);
	put(DEPTH, 32); /* the same one */
	for (unsigned n = 0; n < 32; n++)
		assert_int_equal(get(FROM + n) | get(TO + n) | get(INFO + n), 0);
	assert_int_equal(get(0x1dd), 5); /* the LER stays */
	assert_int_equal(get(CTL), BOTH);
}

UNIT(entry_0_is_the_newest)
{
	static const unsigned depths[] = {8, 16, 32};

	for (unsigned i = 0; i < 3; i++) {
		prepare(NULL);
		put(DEPTH, depths[i]);
		put(CTL, BOTH);
		for (unsigned n = 0; n < 50; n++)
			take(JMP, 0x1000 + n, 0x2000 + n);
		for (unsigned n = 0; n < depths[i]; n++) {
			assert_int_equal(get(FROM + n), 0x1000 + 49 - n);
			assert_int_equal(get(TO + n), 0x2000 + 49 - n);
		}
	}
}

/* IA32_DEBUGCTL.LBR can be written and means nothing. */
UNIT(debugctl_has_no_part)
{
	prepare(NULL);
	assert_true(ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, 0x801));
	assert_int_equal(rig.vcpu.debugctl, 0x800);
	assert_int_equal(observed_levels(&rig.vcpu), 0);
	put(CTL, EVERY_KIND | OS | USR);
	assert_int_equal(observed_levels(&rig.vcpu), 0);
	put(CTL, BOTH);
	take(JMP, 1, 2);
	assert_int_equal(get(FROM), 1);
}

UNIT(types_and_filters)
{
	static const struct {
		unsigned kind, type, flag;
	} all[] = {
		{JCC, 0, 1 << 16},  {JMP | RETIRED_INDIRECT, 1, 1 << 18},
		{JMP, 2, 1 << 17},  {CALL | RETIRED_INDIRECT, 3, 1 << 20},
		{CALL, 4, 1 << 19}, {RET, 5, 1 << 21},
		{FAR, 8, 1 << 22},
	};

	for (unsigned only = 0; only < 7; only++) {
		prepare(NULL);
		put(CTL, all[only].flag | OS | 1);
		for (unsigned i = 0; i < 7; i++)
			take(all[i].kind, 0x100 + i, 0x200 + i);
		assert_int_equal(get(FROM), 0x100 + only);
		assert_int_equal(get(FROM + 1), 0);
		assert_int_equal(get(INFO) >> 56 & 0xf, all[only].type);
	}
	prepare(&(struct lbr_behaviour){.other = LBR_OTHER_15});
	put(CTL, BOTH);
	deliver(CAUSE_INTERRUPT, 40);
	assert_int_equal(get(INFO) >> 56 & 0xf, 15);
}

/* A branch is of the level that it leads to. From a level that is left out it does not say from
   where. */
UNIT(levels)
{
	prepare(NULL);
	rig.vcpu.native_ring_0 = true;
	put(CTL, EVERY_KIND | USR | 1);
	assert_int_equal(observed_levels(&rig.vcpu), 0xe);
	branch(JMP, 1, 2, 3, 3);
	branch(FAR, 3, 4, 3, 0);
	branch(JMP, 5, 6, 0, 0);
	branch(FAR, 7, 8, 0, 3);
	assert_int_equal(get(TO), 8);
	assert_int_equal(get(FROM), 0xffffffff);
	assert_int_equal(get(TO + 1), 2);
	assert_int_equal(get(FROM + 2), 0);
	put(CTL, EVERY_KIND | OS | 1);
	assert_int_equal(observed_levels(&rig.vcpu), 1);
	branch(JMP, 9, 10, 3, 3);
	branch(FAR, 11, 12, 3, 0);
	branch(FAR, 13, 14, 0, 3);
	assert_int_equal(get(TO), 12);
	put(CTL, EVERY_KIND | 1); /* of neither */
	assert_int_equal(observed_levels(&rig.vcpu), 0);
	prepare(&(struct lbr_behaviour){.from = LBR_FROM_SHOWN});
	put(CTL, EVERY_KIND | USR | 1);
	branch(FAR, 7, 8, 0, 3);
	assert_int_equal(get(FROM), 7);
	prepare(&(struct lbr_behaviour){.from = LBR_FROM_ONES});
	put(CTL, EVERY_KIND | USR | 1);
	branch(FAR, 7, 8, 0, 3);
	assert_int_equal(get(FROM), ~0ull);
}

/* A return takes the newest call off; the others move up. A call of the next instruction has no
   return. */
UNIT(call_stack)
{
	prepare(NULL);
	put(DEPTH, 8);
	put(CTL, 0x38000f);
	for (unsigned n = 0; n < 9; n++)
		take(CALL, 0x1000 + n, 0x2000 + n);
	take(CALL, 0x5000, 0x5005);
	assert_int_equal(get(FROM), 0x1008);
	take(RET, 0x3000, 0x4000);
	take(RET, 0x3000, 0x4000);
	for (unsigned n = 0; n < 6; n++)
		assert_int_equal(get(FROM + n), 0x1006 - n);
	assert_int_equal(get(FROM + 6) | get(TO + 6) | get(INFO + 6), 0);
	assert_int_equal(get(FROM + 7), 0);
	put(CTL, 0x18000f); /* returns are left out */
	take(RET, 0x3000, 0x4000);
	assert_int_equal(get(FROM), 0x1006);
	take(CALL, 0x1100, 0x2100);
	assert_int_equal(get(FROM), 0x1100);
	assert_int_equal(get(FROM + 1), 0x1006);
}

UNIT(freezing)
{
	prepare(NULL);
	assert_true(ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, 0x800));
	put(CTL, BOTH);
	pmu_interrupted(&rig.vcpu, false, false);
	take(JMP, 1, 2); /* the instruction under way enters yet */
	take(JMP, 3, 4);
	deliver(CAUSE_INTERRUPT, 40);
	assert_int_equal(get(FROM), 1);
	assert_int_equal(get(0x1dd), 0);
	assert_int_equal(get(CTL), BOTH);
	assert_int_equal(get(0x38e), 1ull << 58);
	assert_int_equal(observed_levels(&rig.vcpu), 0);
	put(0x390, 1ull << 58);
	take(JMP, 5, 6);
	assert_int_equal(get(FROM), 5);
}

/* #DB clears LBREn and enters nothing; so INIT does. RESET clears all but the depth. */
UNIT(what_disables)
{
	prepare(NULL);
	put(DEPTH, 16);
	put(CTL, BOTH);
	take(JMP, 1, 2);
	deliver(CAUSE_EXCEPTION, VECTOR_DB);
	assert_int_equal(get(CTL), BOTH - 1);
	assert_int_equal(get(FROM), 1);
	assert_int_equal(observed_levels(&rig.vcpu), 0);
	put(CTL, BOTH);
	trace_reset(&rig.vcpu, rig.vcpu.silicon);
	assert_int_equal(get(CTL), BOTH - 1);
	assert_int_equal(get(DEPTH), 16);
	assert_int_equal(get(FROM), 1);
	trace_power_on(&rig.vcpu, rig.vcpu.silicon);
	assert_int_equal(get(CTL) | get(FROM), 0);
	assert_int_equal(get(DEPTH), 32);
}

/* The last branch before an event, not the entry of one. */
UNIT(last_event_record)
{
	prepare(NULL);
	put(CTL, BOTH);
	take(JCC, 1, 2);
	deliver(CAUSE_INTERRUPT, 40);
	assert_int_equal(get(0x1dd), 1);
	assert_int_equal(get(0x1de), 2);
	assert_int_equal(get(0x1e0) & 0xf00000000000000, 0);
	assert_int_equal(get(FROM), 0x77);
	deliver(CAUSE_EXCEPTION, VECTOR_PF);
	assert_int_equal(get(0x1dd), 1);
	take(CALL, 3, 4);
	deliver(CAUSE_SOFTWARE_INTERRUPT, 0x80);
	assert_int_equal(get(0x1dd), 3);
	assert_int_equal(get(0x1e0) >> 56 & 0xf, 4);
	put(CTL, BOTH - 1);
	deliver(CAUSE_INTERRUPT, 40);
	put(CTL, BOTH);
	assert_int_equal(get(0x1dd), 3);
}

static uint64_t timer(unsigned n)
{
	return get(INFO + n) & 0x100000000000ffff;
}

/* Each entry counts from the one before it; the first since IA32_LBR_CTL was written has none. */
UNIT(cycle_timer)
{
	prepare(NULL);
	put(CTL, BOTH);
	take(JMP, 1, 2);
	assert_int_equal(timer(0), 0);
	rig.vcpu.lbr.clock -= 1000;
	take(JMP, 3, 4);
	assert_in_range(timer(0), 0x1000000000000000 + 1000, 0x1000000000010000 - 1);
	rig.vcpu.lbr.clock -= 1 << 20;
	take(JMP, 5, 6);
	assert_int_equal(timer(0), 0x100000000000ffff);
	prepare(&(struct lbr_behaviour){.first = LBR_FIRST_TIMED, .cycles = LBR_CYCLES_COARSE});
	put(CTL, BOTH);
	rig.vcpu.lbr.clock -= 0x8000;
	take(JMP, 1, 2);
	assert_in_range(timer(0), 0x1000000000008000, 0x100000000000ffff);
	assert_int_equal(timer(0) & 0x7ff, 0x7ff);
}

UNIT(mispredicted_branches)
{
	prepare(NULL);
	put(CTL, BOTH);
	take(JCC, 10, 30);
	assert_int_equal(get(INFO) >> 63, 1);
	take(JCC, 10, 30);
	assert_int_equal(get(INFO) >> 63, 0);
}

/* Component 15: 328H bytes. */
UNIT(state_component)
{
	uint64_t area[101] = {0}, other[101] = {0};

	prepare(NULL);
	assert_int_equal(LBR_STATE_BYTES, sizeof(area));
	assert_true(lbr_has_state(rig.vcpu.silicon));
	assert_false(lbr_save(&rig.vcpu, 0, area));
	assert_int_equal(area[1], 32);
	put(DEPTH, 8);
	put(CTL, BOTH);
	for (unsigned n = 0; n < 10; n++)
		take(JMP, 0x1000 + n, 0x2000 + n);
	deliver(CAUSE_INTERRUPT, 40);
	assert_true(lbr_save(&rig.vcpu, 0, area));
	assert_int_equal(area[0], BOTH);
	assert_int_equal(area[1], 8);
	assert_int_equal(area[2], 0x1009);
	assert_int_equal(area[3], 0x2009);
	assert_int_equal(area[5], 0x77);
	assert_int_equal(area[8], 0x1009);
	assert_int_equal(area[29], 0);
	assert_true(lbr_restore(&rig.vcpu, NULL));
	assert_int_equal(get(CTL) | get(FROM) | get(0x1dd), 0);
	assert_int_equal(get(DEPTH), 8);
	assert_int_equal(observed_levels(&rig.vcpu), 0);
	put(DEPTH, 32);
	assert_true(lbr_restore(&rig.vcpu, area));
	assert_int_equal(get(DEPTH), 8);
	assert_int_equal(get(FROM + 1), 0x1009);
	assert_int_equal(observed_levels(&rig.vcpu), 0xf);
	lbr_save(&rig.vcpu, 0, other);
	assert_memory_equal(area, other, sizeof(area));
	other[0] |= 1 << 4;
	assert_false(lbr_restore(&rig.vcpu, other));
	other[0] = BOTH;
	other[1] = 24;
	assert_false(lbr_restore(&rig.vcpu, other));
	prepare(&(struct lbr_behaviour){.xsaves = LBR_XSAVES_STOPS, .xrstors = LBR_XRSTORS_FAULTS});
	put(CTL, BOTH);
	assert_false(lbr_restore(&rig.vcpu, area));
	lbr_save(&rig.vcpu, 0, area);
	assert_int_equal(get(CTL), BOTH - 1);
}

/* Adaptive PEBS takes the newest first, and 0 past the depth. */
UNIT(entries_for_samples)
{
	prepare(NULL);
	put(DEPTH, 8);
	put(CTL, BOTH);
	for (unsigned n = 0; n < 10; n++)
		take(JMP, 0x1000 + n, 0x2000 + n);
	assert_int_equal(lbr_place(&rig.vcpu, 0)->from, 0x1009);
	assert_int_equal(lbr_place(&rig.vcpu, 7)->from, 0x1002);
}

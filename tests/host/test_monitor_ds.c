// SPDX-License-Identifier: MIT
/* sources: tests/framework/random.c tests/host/monitor_ds_rig.c */
/* sources: monitor/lbr/?*.c monitor/pebs/?*.c monitor/pmu/?*.c monitor/pt/?*.c monitor/ds/?*.c */
/* sources: monitor/ds/defects/?*.c monitor/trace.c monitor/unit*.c monitor/profile.c */
#include "monitor/interp/interp.h"
#include "monitor/pmu/rules.h"
#include "monitor/pt/rules.h"
#include "tests/framework/random.h"
#include "tests/host/monitor_ds_rig.h"

static unsigned stored_with(uint64_t bits, unsigned from_cpl, unsigned to_cpl)
{
	rig_configure(240, 264, RIG_ON | bits);
	rig_branch(1, 2, from_cpl, to_cpl);
	return rig_index();
}

/* Of CPL 3 and 0 the suite tells. */
UNIT(levels_1_and_2_are_filtered_as_3, .setup_func = rig_reset)
{
	for (unsigned cpl = 1; cpl <= 2; cpl++) {
		assert_int_equal(stored_with(RIG_OFF_OS, cpl, cpl), 1);
		assert_int_equal(stored_with(RIG_OFF_USR, cpl, cpl), 0);
	}
}

UNIT(transitions_follow_the_behaviour, .setup_func = rig_reset)
{
	assert_int_equal(stored_with(RIG_OFF_OS, 3, 0), 0);
	assert_int_equal(stored_with(RIG_OFF_OS, 0, 3), 1);
	assert_int_equal(stored_with(RIG_OFF_USR, 3, 0), 1);
	assert_int_equal(stored_with(RIG_OFF_USR, 0, 3), 0);
	rig.silicon.behaviour.ds.filter = DS_FILTER_BY_SOURCE;
	assert_int_equal(stored_with(RIG_OFF_OS, 3, 0), 1);
	assert_int_equal(stored_with(RIG_OFF_OS, 0, 3), 0);
}

static unsigned levels_with(uint64_t debugctl)
{
	rig_configure(4 * RIG_RECORD, 8 * RIG_RECORD, debugctl);
	return observed_levels(&rig.vcpu);
}

/* The code of a level that is filtered out may run natively, unless something else looks at it. */
UNIT(levels_are_those_of_the_filters, .setup_func = rig_reset)
{
	assert_int_equal(levels_with(RIG_ON | RIG_OFF_OS), 0xf);
	rig.vcpu.native_ring_0 = true;
	assert_int_equal(levels_with(RIG_ON), 0xf);
	assert_int_equal(levels_with(RIG_ON | RIG_OFF_OS), 0xe);
	assert_int_equal(levels_with(RIG_ON | RIG_OFF_USR), 0x1);
	assert_int_equal(levels_with(RIG_ON | RIG_OFF_OS | RIG_OFF_USR), 0);
	assert_int_equal(levels_with(RIG_TR | RIG_OFF_OS), 0);
	assert_int_equal(levels_with(RIG_ON | RIG_OFF_OS | DEBUGCTL_BTF), 0xf);
	assert_int_equal(levels_with(DEBUGCTL_BTF), 0xf);
	assert_int_equal(levels_with(RIG_ON | RIG_OFF_OS | DEBUGCTL_LBR), 0xf);
	rig_configure(4 * RIG_RECORD, 8 * RIG_RECORD, RIG_ON | RIG_OFF_OS);
	rig.silicon.behaviour.ds.skid = DS_SKID_SHORT;
	assert_int_equal(observed_levels(&rig.vcpu), 0xf);
	rig.silicon.behaviour.ds.skid = DS_SKID_NONE;
	rig.silicon.behaviour.ds.ds_cpl = DS_CPL_ABSENT;
	assert_int_equal(observed_levels(&rig.vcpu), 0xf);
	rig.silicon.behaviour.ds.ds_cpl = DS_CPL_FILTERS;
	assert_int_equal(observed_levels(&rig.vcpu), 0xe);
	rig.vcpu.observed |= OBSERVER_FLOW;
	rig.silicon.pt = pt_clean;
	pt_encode(&rig.vcpu);
	rig.vcpu.pt.ctl = CTL_TRACE_EN | CTL_OS | CTL_USER;
	assert_int_equal(observed_levels(&rig.vcpu), 0xf);
	rig.vcpu.pt.ctl = CTL_TRACE_EN | CTL_USER;
	assert_int_equal(observed_levels(&rig.vcpu), 0xe);
	rig.vcpu.pt.sync_due = true;
	assert_int_equal(observed_levels(&rig.vcpu), 0xf);
	rig.vcpu.pt.sync_due = false;
	rig.silicon.pt.context = NULL;
	pt_encode(&rig.vcpu);
	assert_int_equal(observed_levels(&rig.vcpu), 0xf);
	rig.vcpu.observed &= ~(unsigned)OBSERVER_FLOW;
	ds_break(&rig.silicon.ds);
	assert_int_equal(observed_levels(&rig.vcpu), 0xf);
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
UNIT(both_conventions_of_the_maximum_give_all_slots, .setup_func = rig_reset)
{
	rig_configure(4 * RIG_RECORD, 5 * RIG_RECORD, RIG_ON);
	check_circle(4);
	rig_reset(NULL);
	rig_configure(4 * RIG_RECORD + 1, 5 * RIG_RECORD, RIG_ON);
	check_circle(4);
	rig_reset(NULL);
	rig.silicon.behaviour.ds.wrap = DS_WRAP_BEFORE_WRITE;
	rig_configure(4 * RIG_RECORD, 5 * RIG_RECORD, RIG_ON);
	check_circle(4);
	rig_reset(NULL);
	rig_configure(4 * RIG_RECORD - 1, 5 * RIG_RECORD, RIG_ON);
	check_circle(3);
}

UNIT(index_wraps_when_the_behaviour_says, .setup_func = rig_reset)
{
	rig_configure(4 * RIG_RECORD, 5 * RIG_RECORD, RIG_ON);
	rig_branches(1, 4);
	assert_int_equal(rig_index(), 0);
	rig.silicon.behaviour.ds.wrap = DS_WRAP_BEFORE_WRITE;
	rig_configure(4 * RIG_RECORD, 5 * RIG_RECORD, RIG_ON);
	rig_branches(1, 4);
	assert_int_equal(rig_index(), 4);
}

UNIT(no_room_at_all_stores_nothing, .setup_func = rig_reset)
{
	rig_configure(RIG_RECORD - 1, 2 * RIG_RECORD, RIG_ON);
	rig_branches(1, 10);
	assert_int_equal(rig_slot(0), 0);
	assert_int_equal(rig_index(), 0);
}

UNIT(absent_pages_lose_the_record, .setup_func = rig_reset)
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
UNIT(half_absent_record_is_lost, .setup_func = rig_reset)
{
	rig.base = RIG_LINEAR + 2 * RIG_PAGE - 12;
	rig_configure(4 * RIG_RECORD, 5 * RIG_RECORD, RIG_ON);
	rig.absent[2] = true;
	rig_branches(1, 1);
	assert_int_equal(rig_slot(0), 0);
	assert_int_equal(rig_index(), 0);
}

UNIT(translations_are_remembered_until_forgotten, .setup_func = rig_reset)
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
UNIT(devices_are_not_touched, .setup_func = rig_reset)
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
UNIT(behaviour_chooses_the_access, .setup_func = rig_reset)
{
	static const struct {
		unsigned dirty, access;
	} cases[] = {{DS_DIRTY_SET, ACCESS_WRITE | ACCESS_OVERRIDE},
		     {DS_DIRTY_LEFT_CLEAR, ACCESS_WRITE | ACCESS_OVERRIDE | ACCESS_UNMARKED},
		     {DS_DIRTY_DROPS_RECORD, ACCESS_WRITE | ACCESS_OVERRIDE | ACCESS_DIRTY}};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		rig_reset(NULL);
		rig.silicon.behaviour.ds.dirty = cases[i].dirty;
		rig.vcpu.cr3 = 0x3;
		rig_configure(4 * RIG_RECORD, 5 * RIG_RECORD, RIG_ON);
		rig_branches(1, 1);
		assert_int_equal(rig.access, cases[i].access);
		assert_int_equal(rig_index(), 1);
	}
}

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

UNIT(every_record_at_or_past_the_threshold, .setup_func = rig_reset)
{
	assert_int_equal(interrupts_with(2 * RIG_RECORD, RIG_BTINT), 111);
	assert_int_equal(interrupts_with(0, RIG_BTINT), 1111);
	assert_int_equal(interrupts_with(9 * RIG_RECORD, RIG_BTINT), 0);
}

UNIT(other_ways_to_compare, .setup_func = rig_reset)
{
	rig.silicon.behaviour.ds.threshold = DS_THRESHOLD_CROSSED;
	assert_int_equal(interrupts_with(2 * RIG_RECORD, RIG_BTINT), 100);
	assert_int_equal(interrupts_with(2 * RIG_RECORD - 1, RIG_BTINT), 100);
	rig.silicon.behaviour.ds.threshold = DS_THRESHOLD_EQUAL;
	assert_int_equal(interrupts_with(2 * RIG_RECORD, RIG_BTINT), 100);
	assert_int_equal(interrupts_with(2 * RIG_RECORD - 1, RIG_BTINT), 0);
	rig.silicon.behaviour.ds.compare = DS_COMPARE_BEFORE;
	assert_int_equal(interrupts_with(2 * RIG_RECORD, RIG_BTINT), 10);
}

UNIT(clearing_btint_is_not_enough, .setup_func = rig_reset)
{
	assert_int_equal(interrupts_with(2 * RIG_RECORD, 0), 111);
	rig.silicon.behaviour.ds.circular = DS_CIRCULAR_IS_SILENT;
	assert_int_equal(interrupts_with(2 * RIG_RECORD, 0), 0);
	assert_int_equal(interrupts_with(2 * RIG_RECORD, RIG_BTINT), 111);
}

static void retire(uint64_t from, uint64_t to, unsigned kind, uint64_t rsp)
{
	rig.vcpu.gpr[RSP] = rsp;
	saw_retired(&rig.vcpu, &(struct retired){.from = from, .to = to, .kind = RETIRED | kind});
}

/* Not told of: jumps that are not recorded, what is called and returns meanwhile. */
UNIT(stack_on_tells_of_each_branch_with_rsp, .setup_func = rig_reset)
{
	const unsigned call = RETIRED_BRANCH | RETIRED_CALL | RETIRED_TAKEN,
		       ret = RETIRED_BRANCH | RETIRED_RETURN | RETIRED_TAKEN,
		       jump = RETIRED_BRANCH | RETIRED_TAKEN;
	struct told told[4];

	rig.silicon.tells_stack = true;
	rig_configure(240, 264, RIG_ON);
	retire(0x10, 0x20, jump, 0x1000);
	retire(0x20, 0x22, RETIRED_BRANCH | RETIRED_CONDITIONAL, 0x1000);
	ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, 0);
	retire(0x30, 0x40, call, 0xff8);
	retire(0x41, 0x50, call, 0xff0);
	retire(0x50, 0x45, ret, 0xff8);
	retire(0x45, 0x48, jump, 0xff8);
	assert_int_equal(rig.told_bytes, sizeof(struct told));
	ds_write_msr(&rig.vcpu, RIG_DEBUGCTL, RIG_ON);
	retire(0x48, 0x35, ret, 0x1000);
	saw_event(&rig.vcpu, &(struct branch){.from = 0x35, .to = 0x80, .cause = CAUSE_NMI});
	assert_int_equal(rig.told_bytes, sizeof(told));
	memcpy(told, rig.told, sizeof(told));
	assert_true(told[0].from == 0x10 && told[0].to == 0x20 && told[0].rsp == 0x1000);
	assert_true(told[0].recorded && told[0].kind == (RETIRED | jump));
	assert_true(told[1].from == 0x30 && told[1].rsp == 0xff8 && !told[1].recorded);
	assert_true(told[2].from == 0x48 && told[2].rsp == 0x1000 && told[2].recorded);
	assert_true(told[3].to == 0x80 && !told[3].kind && told[3].recorded);
}

UNIT(full_buffer_stops, .setup_func = rig_reset)
{
	rig_configure(4 * RIG_RECORD, 2 * RIG_RECORD, RIG_ON | RIG_BTINT);
	rig_branches(1, 10);
	assert_int_equal(rig_index(), 4);
	assert_int_equal(rig_slot(0), 1);
	assert_int_equal(rig_slot(3), 4);
	assert_int_equal(rig_slot(4), 0);
}

UNIT(full_buffer_may_wrap_or_run_on, .setup_func = rig_reset)
{
	rig.silicon.behaviour.ds.full = DS_FULL_WRAP;
	rig_configure(4 * RIG_RECORD, 2 * RIG_RECORD, RIG_ON | RIG_BTINT);
	rig_branches(1, 5);
	assert_int_equal(rig_slot(0), 5);
	assert_int_equal(rig_index(), 1);
	rig.silicon.behaviour.ds.full = DS_FULL_WRITE;
	rig_configure(4 * RIG_RECORD, 2 * RIG_RECORD, RIG_ON | RIG_BTINT);
	rig_branches(1, 5);
	assert_int_equal(rig_slot(4), 5);
	assert_int_equal(rig_index(), 5);
}

/* Interrupts that are repeated while their cause lasts, where the manual leaves it open. */

/* Of three records that find no room in four slots. */
static unsigned interrupts_when_full(unsigned btint, uint64_t threshold, uint64_t controls)
{
	rig.silicon.behaviour.ds.threshold = DS_THRESHOLD_EQUAL;
	rig.silicon.behaviour.ds.btint = btint;
	rig_configure(4 * RIG_RECORD, threshold * RIG_RECORD, RIG_ON | controls);
	rig_branches(1, 4);
	rig.interrupts = 0;
	rig_branches(5, 3);
	assert_int_equal(rig_index(), controls ? 4 : 3);
	return rig.interrupts;
}

UNIT(a_full_buffer_interrupts_as_the_behaviour_says, .setup_func = rig_reset)
{
	assert_int_equal(interrupts_when_full(DS_BTINT_STORED, 4, RIG_BTINT), 0);
	assert_int_equal(interrupts_when_full(DS_BTINT_THRESHOLD, 4, RIG_BTINT), 3);
	assert_int_equal(interrupts_when_full(DS_BTINT_THRESHOLD, 6, RIG_BTINT), 0);
	assert_int_equal(interrupts_when_full(DS_BTINT_FULL, 4, RIG_BTINT), 3);
	assert_int_equal(interrupts_when_full(DS_BTINT_FULL, 6, RIG_BTINT), 3);
	assert_int_equal(interrupts_when_full(DS_BTINT_FULL, 6, 0), 0);
}

/* Whether an unmasked LVT entry interrupts, asked or not before, while a counter's bit is set. */
static unsigned interrupts_at_unmasking(unsigned masked, bool asked)
{
	rig_reset(NULL);
	rig_make("nehalem", &(struct behaviour){.ds.masked = masked}, NULL);
	assert_true(trace_write_msr(&rig.vcpu, MSR_PERFEVTSEL0, 0xc0 | SELECT_INT | SELECT_EN));
	rig.vcpu.pmu.global_status = 1;
	rig.vcpu.pmu.masked = asked;
	pmu_unmasked(&rig.vcpu);
	pmu_unmasked(&rig.vcpu);
	assert_true(trace_write_msr(&rig.vcpu, MSR_PERF_GLOBAL_OVF_CTRL, 1));
	pmu_unmasked(&rig.vcpu);
	return rig.interrupts;
}

UNIT(the_status_interrupts_as_the_behaviour_says, .setup_func = rig_reset)
{
	assert_int_equal(interrupts_at_unmasking(DS_MASKED_WAITS, false), 0);
	assert_int_equal(interrupts_at_unmasking(DS_MASKED_WAITS, true), 1);
	assert_int_equal(interrupts_at_unmasking(DS_MASKED_STATUS, false), 2);
}

/* Random Debug Stores: what a branch does must not depend on what was remembered of the last one.
 */

enum { ROUNDS = 3000, BRANCHES = 60 };

static uint64_t sequence;

static unsigned below(unsigned bound)
{
	return (unsigned)random_below(&sequence, bound);
}

static void randomize(void)
{
	rig_reset(NULL);
	rig.area = RIG_LINEAR + below(RIG_PAGE + 1);
	rig.base = RIG_LINEAR + 3 * RIG_PAGE - 8 * below(120) - below(4);
	rig.silicon.behaviour.ds.room = below(3);
	rig.silicon.behaviour.ds.wrap = below(2);
	rig.silicon.behaviour.ds.full = below(3);
	rig.silicon.behaviour.ds.threshold = below(3);
	rig.silicon.behaviour.ds.compare = below(2);
	rig.silicon.behaviour.ds.circular = below(2);
	rig_configure(below(30 * RIG_RECORD), below(33 * RIG_RECORD),
		      RIG_ON | (below(2) ? RIG_BTINT : 0));
	rig_set_index(rig.base + below(3) * RIG_RECORD);
}

static void run(bool forgetting)
{
	for (unsigned n = 1; n <= BRANCHES; n++) {
		if (forgetting)
			rig.vcpu.translations++;
		rig_branches(n, 1);
		if (n % 32 == 0)
			rig_set_index(rig.base);
	}
}

UNIT(remembering_changes_nothing)
{
	static uint8_t memory[RIG_PAGES][RIG_PAGE];

	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t seed = sequence = round;
		unsigned interrupts;

		randomize();
		run(true);
		memcpy(memory, rig.memory, sizeof(memory));
		interrupts = rig.interrupts;
		sequence = seed;
		randomize();
		run(false);
		assert_memory_equal(rig.memory, memory, sizeof(memory));
		assert_int_equal(rig.interrupts, interrupts);
	}
}

/* A hypervisor that maps a page late lets the store begin anew: the first part is written twice. */
UNIT(a_restarted_store_changes_nothing)
{
	static uint8_t memory[RIG_PAGES][RIG_PAGE];
	unsigned restarts = 0;

	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t seed = sequence = round;
		unsigned interrupts, translations;

		randomize();
		run(false);
		memcpy(memory, rig.memory, sizeof(memory));
		interrupts = rig.interrupts;
		translations = rig.translations;
		sequence = seed;
		randomize();
		rig.silicon.behaviour.ds.fault = DS_FAULT_RESTARTS;
		ds_note(&rig.vcpu, DS_AT_EXIT);
		run(false);
		assert_memory_equal(rig.memory, memory, sizeof(memory));
		assert_int_equal(rig.interrupts, interrupts);
		restarts += rig.translations > translations;
	}
	assert_true(restarts > ROUNDS / 2);
}

// SPDX-License-Identifier: MIT
/* sources: monitor/pebs/?*.c monitor/pmu/?*.c monitor/pt/?*.c monitor/ds/?*.c */
/* sources: monitor/ds/defects/?*.c monitor/trace.c monitor/unit*.c monitor/profile.c */
/* Interrupts that are repeated while their cause lasts, where the manual leaves it open. */
#include "monitor/pmu/rules.h"
#include "tests/host/monitor_ds_rig.h"

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

static void a_full_buffer_interrupts_as_the_behaviour_says(void **state)
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
	rig_make(0, &(struct behaviour){.ds.masked = masked}, NULL);
	assert_true(pmu_write_msr(&rig.vcpu, MSR_PERFEVTSEL0, 0xc0 | SELECT_INT | SELECT_EN));
	rig.vcpu.pmu.global_status = 1;
	rig.vcpu.pmu.masked = asked;
	pmu_unmasked(&rig.vcpu);
	pmu_unmasked(&rig.vcpu);
	assert_true(pmu_write_msr(&rig.vcpu, MSR_PERF_GLOBAL_OVF_CTRL, 1));
	pmu_unmasked(&rig.vcpu);
	return rig.interrupts;
}

static void the_status_interrupts_as_the_behaviour_says(void **state)
{
	assert_int_equal(interrupts_at_unmasking(DS_MASKED_WAITS, false), 0);
	assert_int_equal(interrupts_at_unmasking(DS_MASKED_WAITS, true), 1);
	assert_int_equal(interrupts_at_unmasking(DS_MASKED_STATUS, false), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_full_buffer_interrupts_as_the_behaviour_says, rig_reset),
		cmocka_unit_test_setup(the_status_interrupts_as_the_behaviour_says, rig_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

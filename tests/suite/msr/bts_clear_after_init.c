// SPDX-License-Identifier: MIT
#include "drivers/ds/ds.h"
#include "drivers/ds/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/sched/sched.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/context.h"
#include "kernel/trace/cpu.h"
#include "tests/framework/test.h"

/*
 * INIT takes a processor away from whatever it does: what it recorded for, and where, is gone with
 * the software that had asked for it, while the DS area may be anybody's memory by now. A processor
 * that went on recording after its start-up IPI would store into that, beginning in real mode.
 */
#define SLOTS	  16
#define MOST_WAIT 1000000 /* microseconds */

struct trial {
	void *area, *buffer;
	uint64_t debugctl; /* before INIT */
	uint64_t debugctl_after, area_after;
};

/* The first thing that runs on the CPU once it is in C again. */
static void look(void *argument)
{
	struct trial *trial = argument;

	trial->debugctl_after = rdmsr(IA32_DEBUGCTL);
	trial->area_after = rdmsr(IA32_DS_AREA);
	wrmsr(IA32_DEBUGCTL, 0);
}

/* On the CPU that gets the INIT. */
static void go_through_init(void *argument)
{
	struct trial *trial = argument;
	uint64_t flags;

	preemption_disable();
	flags = interrupts_save();
	if (ds_checkout(&this_cpu()->trace->ds) == 0) {
		wrmsr(IA32_DS_AREA, (uint64_t)trial->area);
		wrmsr(IA32_DEBUGCTL, trial->debugctl);
		smp_park(look, trial);
		ds_checkin(&this_cpu()->trace->ds);
	}
	interrupts_restore(flags);
	preemption_enable();
}

/* The one branch that all slots hold, by its target; 0: they differ, or one is empty. */
static uint64_t only_branch(const void *area)
{
	struct bts_struct first = {0}, record = {0};

	ds_read_bts(area, 0, &first);
	for (size_t slot = 1; slot < ds_get_bts_end(area); slot++) {
		ds_read_bts(area, slot, &record);
		if (record.from != first.from || record.to != first.to)
			return 0;
	}
	return first.to;
}

static void check(uint64_t debugctl)
{
	unsigned index = cpu_count() - 1;
	bool records = !(debugctl & ds_configuration->btint);
	struct trial trial = {test_area(1), test_area(1), debugctl, UINT64_MAX, UINT64_MAX};
	uint64_t end = time_now() + MOST_WAIT, branch = 0;
	struct task *task;

	REQUIRE_EQ(
		ds_set_bts_buffer(trial.area, trial.buffer, SLOTS * ds_configuration->record_size),
		0);
	task = task_create_stopped("init", go_through_init, &trial);
	if (!task)
		test_error("no memory for a task");
	task_set_affinity(task, cpu_set_of(index));
	task_start(task);
	while (atomic_load(&cpu_by_index(index)->online) ||
	       (records && !(branch = only_branch(trial.area))))
		if (time_now() > end)
			test_error("CPU %u does not wait, or does not record", index);
	EXPECT(smp_unpark(index));
	task_join(task);
	task_put(task);
	EXPECT_EQ(trial.debugctl_after, 0);
	EXPECT(trial.area_after == 0 || trial.area_after == (uint64_t)trial.area);
	if (records)
		EXPECT_EQ(only_branch(trial.area), branch);
	test_observe("area_after_init", "%s", trial.area_after ? "kept" : "cleared");
}

TEST(bts_clear_after_init, .group = "M", .ids = "M1", .needs = NEED_BTS | NEED_SMP,
     .claim =
	     "INIT ends recording: TR, BTS, BTINT and the filters are clear after the start-up IPI",
     .source = "SDM Vol 3, 17.4.9: cleared on processor RESET and INIT")
{
	const struct ds_configuration *c = ds_configuration;
	uint64_t filters = ds_caps()->dscpl ? c->off_os | c->off_usr : 0;

	task_set_affinity(current_task(), cpu_set_of(0)); /* INIT is for the others */
	EXPECT_EQ(trace_found_at_start() & (c->tr | c->bts | c->btint | filters), 0);
	check(c->tr | c->bts | (filters & c->off_usr));
	check(c->tr | c->bts | c->btint | (filters & c->off_os));
}

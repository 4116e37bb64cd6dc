// SPDX-License-Identifier: MIT
// A CPU's Debug Store MSRs can be written by that CPU only. Releasing a trace from another one
// without asking frees memory that is still being written. Passing means: a release waits until the
// CPU that has the trace loaded has let go of it.
#include "abi/errno.h"
#include "drivers/ds/registers.h"
#include "drivers/msr.h"
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/context.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#define ROUNDS 50

struct msrs {
	uint64_t debugctl, area;
};

static void look(void *argument)
{
	*(struct msrs *)argument = (struct msrs){rdmsr(IA32_DEBUGCTL), rdmsr(IA32_DS_AREA)};
}

/* What holds of a lease at one moment: the real one may be between two. */
static struct ds_lease wait_until_loaded(const struct tracer *tracer, const struct ds_cpu *cpu)
{
	struct ds_lease lease;

	while ((lease = *(volatile const struct ds_lease *)&tracer->lease).cpu != cpu)
		task_yield();
	return lease;
}

static void release(const struct walker *walker, unsigned there)
{
	struct trace_options options = walker_options(64);
	const struct ds_idle *idle = cpu_by_index(there)->ds.idle;
	struct tracer *tracer = NULL;
	struct ds_lease lease;
	struct msrs msrs;

	options.overflow = TRACE_WRAP;
	EXPECT_EQ(trace_attach(walker->task, &options, &tracer), 0);
	lease = wait_until_loaded(tracer, &cpu_by_index(there)->ds);
	EXPECT_EQ(ds_release_bts(&this_cpu()->ds, &lease), -EPERM);
	EXPECT_EQ(lease.area, tracer->lease.area);
	smp_call(there, look, &msrs);
	EXPECT_EQ(msrs.debugctl, lease.debugctl);
	EXPECT(trace_available(tracer) > 0);
	EXPECT(trace_detach(tracer));
	smp_call(there, look, &msrs);
	EXPECT_EQ(msrs.debugctl, 0);
	EXPECT_EQ(msrs.area, idle->area);
}

/* What is freed is not mapped any more: a record that came later would end the run. */
TEST(bts_migration_release_elsewhere, .group = "S", .ids = "S4", .needs = NEED_BTS | NEED_SMP,
     .claim = "a CPU gives back a trace only by itself; who detaches elsewhere waits until it has",
     .source = "docs/design.md#ownership")
{
	struct walker walker = {.name = "far", .chain = &chain_a, .walks = UINT64_MAX};
	unsigned there = (this_cpu()->index + 1) % cpu_count();

	walkers_create(&walker, 1);
	task_set_affinity(walker.task, 1ul << there);
	task_start(walker.task);
	for (unsigned i = 0; i < ROUNDS; i++)
		release(&walker, there);
	task_kill(walker.task);
	walkers_join(&walker, 1);
	walker_end(&walker);
}

// SPDX-License-Identifier: MIT
#include "kernel/trace/cpu.h"

#include "drivers/ds/registers.h"
#include "drivers/pmu/registers.h"
#include "drivers/processor.h"
#include "drivers/pt/registers.h"
#include "kernel/console.h"
#include "kernel/end.h"
#include "kernel/mm/page.h"
#include "kernel/mm/vm.h"
#include "kernel/trace/context.h"

static struct ds_found found_at_boot;
static uint64_t found_at_start;

void trace_quiesce(void)
{
	found_at_boot = ds_quiesce();
}

uint64_t trace_found_at_start(void)
{
	return found_at_start;
}

/* The first page of a CPU for tracing; the second is its idle DS area, alone in its page. */
static struct trace_cpu *create_trace_cpu(const struct cpu *cpu)
{
	struct trace_cpu *trace = area_alloc(2, VM_WRITE);

	_Static_assert(sizeof(*trace) <= PAGE_SIZE, "one page");
	if (!trace)
		panic("no memory to trace CPU %u", cpu->index);
	trace->context.references = 1;
	return trace;
}

static struct ds_idle *idle_of(struct trace_cpu *trace)
{
	return (struct ds_idle *)((uint8_t *)trace + PAGE_SIZE);
}

static void init_units(struct cpu *cpu, struct trace_cpu *trace)
{
	cpu->trace = trace;
	debugctl_probe();
	ds_init_cpu(&trace->ds, idle_of(trace), &cpu->debugctl);
	pmu_init_cpu(&trace->pmu);
	EACH_UNIT_WITH (init_cpu)
		if (trace_units[i]->is_present())
			trace_units[i]->init_cpu(cpu);
	trace_deliver_pmi(true);
}

void trace_init(void)
{
	struct trace_cpu *trace = create_trace_cpu(this_cpu());
	struct ds_caps caps;

	ds_probe(&caps, idle_of(trace));
	ds_init(&caps);
	pmu_init();
	EACH_UNIT_WITH (init)
		trace_units[i]->init();
	kind_note(this_cpu(), &caps);
	freeze_init();
	trace_init_pmi();
	trace_init_work();
	init_units(this_cpu(), trace);
}

bool trace_init_cpu(void)
{
	struct trace_cpu *trace = create_trace_cpu(this_cpu());
	struct ds_found found = ds_quiesce();
	struct ds_caps caps;

	found_at_start |= found.debugctl | found.rtit_ctl << 63;
	ds_probe(&caps, idle_of(trace));
	ds_init(ds_caps());
	if (!kind_note(this_cpu(), &caps))
		return false; /* IA32_DS_AREA may go on to hold the idle area */
	pmu_limit();
	init_units(this_cpu(), trace);
	return true;
}

void trace_stop_msrs(uint32_t msrs[TRACE_STOP_MSRS])
{
	static const uint32_t all[] = {IA32_DEBUGCTL, IA32_LBR_CTL, IA32_RTIT_CTL, IA32_PEBS_ENABLE,
				       IA32_PERF_GLOBAL_CTRL};
	uint64_t value;

	_Static_assert(sizeof(all) / sizeof(all[0]) == TRACE_STOP_MSRS - 1, "one a unit, and 0");
	for (unsigned i = 0; i < TRACE_STOP_MSRS - 1; i++)
		if (cpuid_is_intel() && rdmsr_safe(all[i], &value))
			*msrs++ = all[i];
	*msrs = 0;
}

void trace_print_units(const char *silicon, const char *mark)
{
	const struct ds_caps *caps = ds_caps();

	printk("# ds=%d dtes64=%d dscpl=%d bts_unavail=%d silicon=%s%s\n", caps->ds, caps->dtes64,
	       caps->dscpl, caps->bts_unavailable, silicon, mark);
	EACH_UNIT_WITH (print)
		trace_units[i]->print();
	if (found_at_boot.debugctl)
		printk("# debugctl_at_boot=%lx\n", found_at_boot.debugctl);
	if (found_at_boot.rtit_ctl)
		printk("# rtit_ctl_at_boot=%lx\n", found_at_boot.rtit_ctl);
	kinds_print();
}

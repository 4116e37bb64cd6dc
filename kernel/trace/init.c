// SPDX-License-Identifier: MIT
#include "kernel/trace/init.h"

#include "kernel/mm/area.h"
#include "kernel/panic.h"
#include "kernel/trace/context.h"

static struct ds_idle boot_idle __attribute__((aligned(4096)));
static struct ds_found found_at_boot;
static uint64_t found_at_start;

void trace_quiesce(void)
{
	found_at_boot = ds_quiesce();
}

struct ds_found trace_found_at_boot(void)
{
	return found_at_boot;
}

uint64_t trace_found_at_start(void)
{
	return found_at_start;
}

void trace_init(void)
{
	struct ds_caps caps;

	ds_probe(&caps, &boot_idle);
	ds_init(&caps);
	pmu_init();
	pmu_init_cpu(&this_cpu()->pmu);
	trace_init_pmi();
	if (!ds_present())
		return;
	ds_init_cpu(&this_cpu()->ds, &boot_idle);
	trace_create_staging(this_cpu());
	trace_init_work();
}

void trace_init_cpu(void)
{
	struct ds_idle *idle;

	found_at_start |= ds_quiesce().debugctl;
	pmu_init_cpu(&this_cpu()->pmu);
	trace_deliver_pmi(true);
	if (!ds_present())
		return;
	idle = area_alloc(1, VM_WRITE);
	if (!idle)
		panic("no memory for a Debug Store area");
	ds_init_cpu(&this_cpu()->ds, idle);
	trace_create_staging(this_cpu());
}

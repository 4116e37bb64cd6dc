// SPDX-License-Identifier: MIT
#include "kernel/trace/init.h"

#include "kernel/console.h"
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

bool trace_is_present(void)
{
	return ds_present();
}

void trace_print_units(const char *silicon)
{
	const struct ds_caps *caps = ds_caps();

	printk("# ds=%d dtes64=%d dscpl=%d bts_unavail=%d silicon=%s\n", caps->ds, caps->dtes64,
	       caps->dscpl, caps->bts_unavailable, silicon);
	if (!ds_present())
		printk("# bts=absent why=\"%s\"\n", ds_status_text(caps->status));
	else
		printk("# bts=present layout=%s record=%u\n", caps->configuration->name,
		       caps->configuration->record_size);
	if (found_at_boot.debugctl)
		printk("# debugctl_at_boot=%lx\n", found_at_boot.debugctl);
	if (found_at_boot.rtit_ctl)
		printk("# rtit_ctl_at_boot=%lx\n", found_at_boot.rtit_ctl);
}

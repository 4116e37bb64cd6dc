// SPDX-License-Identifier: MIT
// The PMI, possibly an NMI, only says that the staging has reached its threshold; the records are
// moved, and owners told, by an interrupt of its own that it raises.
#include "drivers/apic/lapic.h"
#include "kernel/mm/area.h"
#include "kernel/panic.h"
#include "kernel/sched/task.h"
#include "kernel/trace/context.h"
#include "kernel/trace/init.h"
#include "kernel/trace/switch.h"
#include "kernel/trap/trap.h"

static struct ds_idle boot_idle __attribute__((aligned(4096)));
static uint64_t found_at_boot, found_at_start;

void trace_queue(struct cpu *cpu, struct tracer *tracer)
{
	if (atomic_exchange(&tracer->queued, true))
		return;
	tracer->next_queued = cpu->trace->queue;
	cpu->trace->queue = tracer;
	lapic_self_ipi(VECTOR_TRACE_WORK);
}

/* Once `queued` is false it may be queued again, by another CPU as well. */
void trace_serve_queue(struct cpu *cpu)
{
	while (cpu->trace->queue) {
		struct tracer *tracer = cpu->trace->queue;

		cpu->trace->queue = tracer->next_queued;
		atomic_store(&tracer->queued, false);
		if (tracer->context)
			tracer->options.overflowed(tracer, tracer->options.argument);
	}
}

static void work_interrupt(struct trap_frame *frame)
{
	struct cpu *cpu = this_cpu();

	(void)frame;
	lapic_eoi();
	if (cpu->ds.loaded && !ds_is_lent(&cpu->ds)) {
		trace_rest(cpu);
		trace_arrive(cpu);
	}
	trace_serve_queue(cpu);
}
/* The record of what is loaded decides, never the running task: a switch may be under way. */
static bool serve_pmi(struct cpu *cpu)
{
	if (!ds_pmi(&cpu->ds))
		return false;
	lapic_self_ipi(VECTOR_TRACE_WORK);
	return true;
}

/*
 * An NMI is a PMI if the delivery masked the LVT entry, which nothing else does, or if there is
 * something to serve: whether the mask is also set for NMI delivery is not said for all parts.
 * While the MSRs are lent their borrower serves it.
 */
static bool pmi_nmi(struct trap_frame *frame)
{
	bool masked;

	(void)frame;
	if (ds_is_lent(&this_cpu()->ds))
		return false;
	masked = lapic_read_lvtpc() & LVT_MASKED;
	return serve_pmi(this_cpu()) || masked;
}

static void pmi_interrupt(struct trap_frame *frame)
{
	(void)frame;
	lapic_eoi();
	serve_pmi(this_cpu());
}

void trace_deliver_pmi(bool nmi)
{
	lapic_set_lvtpc(VECTOR_PMI, nmi);
}

void trace_quiesce(void)
{
	found_at_boot = ds_quiesce();
}

uint64_t trace_found_at_boot(void)
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
	ds_init(&caps, lapic_unmask_lvtpc);
	if (!ds_present())
		return;
	ds_init_cpu(&this_cpu()->ds, &boot_idle);
	trace_create_staging(this_cpu());
	interrupt_set_handler(VECTOR_TRACE_WORK, work_interrupt);
	interrupt_set_handler(VECTOR_PMI, pmi_interrupt);
	nmi_add_handler(pmi_nmi);
	trace_deliver_pmi(true);
}

void trace_init_cpu(void)
{
	struct ds_idle *idle;

	found_at_start |= ds_quiesce();
	if (!ds_present())
		return;
	idle = area_alloc(1, VM_WRITE);
	if (!idle)
		panic("no memory for a Debug Store area");
	ds_init_cpu(&this_cpu()->ds, idle);
	trace_create_staging(this_cpu());
	trace_deliver_pmi(true);
}

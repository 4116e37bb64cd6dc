// SPDX-License-Identifier: MIT
// The PMI only notes which context reached its threshold; the records are moved by an interrupt of
// its own that it raises. An NMI can come between any two instructions, so the list in between is
// pushed to and emptied by single atomic operations.
#include "drivers/apic/lapic.h"
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/mm/area.h"
#include "kernel/panic.h"
#include "kernel/trace/due.h"
#include "kernel/trap/trap.h"

#include <stddef.h>

static struct ds_idle boot_idle __attribute__((aligned(4096)));
static uint64_t found_at_boot;

#define context_of(lease_pointer)                                                                  \
	((struct trace_context *)((char *)(lease_pointer) - offsetof(struct trace_context, lease)))

void trace_set_due(struct cpu *cpu, struct trace_context *context)
{
	if (atomic_exchange(&context->due, true))
		return;
	context->next_due = atomic_load(&cpu->due);
	while (!atomic_compare_exchange_weak(&cpu->due, &context->next_due, context))
		;
	lapic_self_ipi(VECTOR_TRACE_WORK);
}

static void take(void *argument, const void *area, size_t count, bool full)
{
	struct trace_context *context = argument;

	context->truncated |= full;
	for (size_t at = 0; at < count; at++) {
		struct bts_struct record;

		if (ds_read_bts(area, at, &record) == 0)
			ring_put(&context->ring, &record);
	}
}

void trace_empty(struct cpu *cpu, struct trace_context *context)
{
	ds_drain(&cpu->ds, &context->lease, take, context);
}

void trace_hand_over(struct cpu *cpu)
{
	struct trace_context *context = atomic_exchange(&cpu->due, NULL);

	while (context) {
		struct trace_context *next = context->next_due;

		atomic_store(&context->due, false);
		trace_empty(cpu, context);
		context->handed_over++;
		context = next;
	}
}

static void work_interrupt(struct trap_frame *frame)
{
	(void)frame;
	lapic_eoi();
	trace_hand_over(this_cpu());
}

/* The record of what is loaded decides, never the running task: a switch may be under way. */
static bool serve_pmi(struct cpu *cpu)
{
	struct ds_lease *loaded = cpu->ds.loaded;

	if (!ds_pmi(&cpu->ds))
		return false;
	trace_set_due(cpu, context_of(loaded));
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

void trace_init(void)
{
	struct ds_caps caps;

	ds_probe(&caps, &boot_idle);
	ds_init(&caps, lapic_unmask_lvtpc);
	if (!ds_present())
		return;
	ds_init_cpu(&this_cpu()->ds, &boot_idle);
	interrupt_set_handler(VECTOR_TRACE_WORK, work_interrupt);
	interrupt_set_handler(VECTOR_PMI, pmi_interrupt);
	nmi_add_handler(pmi_nmi);
	trace_deliver_pmi(true);
}

void trace_init_cpu(void)
{
	struct ds_idle *idle;

	if (!ds_present())
		return;
	idle = area_alloc(1, VM_WRITE);
	if (!idle)
		panic("no memory for a Debug Store area");
	ds_init_cpu(&this_cpu()->ds, idle);
	trace_deliver_pmi(true);
}

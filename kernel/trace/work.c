// SPDX-License-Identifier: MIT
// The work that a performance-monitoring interrupt leaves to an interrupt of a lower priority:
// staging is emptied, and owners are notified.
#include "drivers/apic/lapic.h"
#include "kernel/trace/context.h"
#include "kernel/trace/init.h"
#include "kernel/trace/switch.h"
#include "kernel/trap/trap.h"

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

void trace_init_work(void)
{
	interrupt_set_handler(VECTOR_TRACE_WORK, work_interrupt);
}

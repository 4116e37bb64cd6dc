// SPDX-License-Identifier: MIT
// Owners of tracers that are to be notified.
#include "drivers/apic/lapic.h"
#include "kernel/sched/task.h"
#include "kernel/trace/context.h"
#include "kernel/trap/trap.h"

/* A task that is switched out now may be on another CPU before its owner hears of it. */
void trace_hold(struct cpu *cpu, struct tracer *tracer)
{
	tracer->held = true;
	if (tracer->context->task)
		atomic_store(&tracer->context->task->user_break, true);
	if (atomic_exchange(&tracer->queued, true))
		return;
	tracer->next_queued = cpu->trace->queue;
	cpu->trace->queue = tracer;
	lapic_self_ipi(VECTOR_TRACE_WORK);
}

/* Once `queued` is false it may be queued again, by another CPU as well. */
void trace_notify_owners(struct cpu *cpu)
{
	while (cpu->trace->queue) {
		struct tracer *tracer = cpu->trace->queue;

		cpu->trace->queue = tracer->next_queued;
		atomic_store(&tracer->queued, false);
		if (tracer->context)
			tracer->overflowed(tracer, tracer->argument);
	}
}

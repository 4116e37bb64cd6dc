// SPDX-License-Identifier: MIT
// Samples that are taken where a counter's interrupt arrives.
#include "drivers/apic/lapic.h"
#include "drivers/clock/tsc.h"
#include "kernel/trace/lbr/branch_stack.h"
#include "kernel/trace/pebs/private.h"
#include "kernel/trap/trap.h"

static struct ds_sample sample_of(const struct trap_frame *f)
{
	return (struct ds_sample){
		.has = DS_SAMPLE_IP | DS_SAMPLE_REGISTERS | DS_SAMPLE_TSC,
		.ip = f->rip,
		.flags = f->rflags,
		.general = {f->rax, f->rcx, f->rdx, f->rbx, f->rsp, f->rbp, f->rsi, f->rdi, f->r8,
			    f->r9, f->r10, f->r11, f->r12, f->r13, f->r14, f->r15},
		.tsc = tsc_read(),
	};
}

/*
 * In the context of the interrupt, which may be an NMI. Nothing is counted until the contexts are
 * at rest: then the counters have what they have here, and the stack is as it froze.
 */
void pebs_interrupted(unsigned counter, void *argument)
{
	struct cpu *cpu = this_cpu();
	struct pebs_cpu *pebs = pebs_cpu(cpu);

	(void)argument;
	pmu_run(pebs->counters, false);
	if (!pebs->interrupted)
		pebs->sample = sample_of(cpu->trace->frame);
	pebs->interrupted |= 1ull << counter;
	lapic_self_ipi(VECTOR_TRACE_WORK);
}

/* Where an interrupt is late no registers are known: what it will interrupt is not the task. */
void pebs_give_interrupted(struct cpu *cpu, uint64_t late)
{
	struct pebs_cpu *pebs = pebs_cpu(cpu);
	uint64_t counters = pebs->interrupted | late;

	if (!counters)
		return;
	if (!pebs->interrupted)
		pebs->sample = (struct ds_sample){.has = DS_SAMPLE_TSC, .tsc = tsc_read()};
	pebs->interrupted = 0;
	branch_stack_depart(cpu);
	for (unsigned slot = 0; slot < PEBS_COUNTERS; slot++)
		if (pebs->loaded[slot] && counters >> pebs_counter(slot) & 1)
			pebs_put(pebs->loaded[slot], &pebs->sample, cpu);
}

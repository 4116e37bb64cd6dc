// SPDX-License-Identifier: MIT
// Samples that are taken where a counter's interrupt arrives.
#include "drivers/apic/lapic.h"
#include "drivers/clock/tsc.h"
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

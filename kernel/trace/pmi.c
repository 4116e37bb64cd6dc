// SPDX-License-Identifier: MIT
// The performance-monitoring interrupt: one entry of the local vector table for every trace unit.
#include "drivers/apic/lapic.h"
#include "kernel/end.h"
#include "kernel/trace/context.h"
#include "kernel/trace/cpu.h"
#include "kernel/trap/trap.h"
#include "lib/checksum.h"

/* No program's registers stay for so long: the interrupts leave it no time for an instruction. */
#define MOST_UNEXPLAINED 1000

static void check_explained(struct trace_cpu *trace, const struct trap_frame *frame, bool explained)
{
	const uint64_t *first = (const uint64_t *)frame;
	uint64_t state = checksum(0, first, first + sizeof(*frame) / sizeof(*first));

	if (explained || state != trace->interrupted)
		trace->unexplained = 0;
	trace->interrupted = state;
	if (++trace->unexplained > MOST_UNEXPLAINED)
		panic("a performance-monitoring interrupt of CPU %u repeats at %016lx, and no trace "
		      "unit or counter explains it",
		      this_cpu()->index, frame->rip);
}

/*
 * Asks each unit in turn, then unmasks the entry, which its delivery masks (SDM Vol 3, 10.5.1).
 * True if a unit had a reason to interrupt. @certain: it is a PMI, while an NMI of another source
 * may come as often as it likes. Recording is paused meanwhile: the branches of
 * callbacks belong to no task. The records themselves are moved by VECTOR_TRACE_WORK, since this
 * may be an NMI. What is loaded decides, not the running task: a switch may be under way.
 */
static bool serve_pmi(struct cpu *cpu, const struct trap_frame *frame, bool certain)
{
	struct trace_paused paused = trace_pause_cpu();
	bool reached = false, counted;

	EACH_UNIT_WITH (interrupt)
		reached |= trace_units[i]->interrupt(cpu);
	cpu->trace->frame = frame;
	counted = pmu_pmi(&cpu->trace->pmu);
	pmu_take_overflows(0); /* OvfBuf, left set, may interrupt at the unmasking */
	if (certain)
		check_explained(cpu->trace, frame, reached || counted);
	trace_resume_cpu(paused);
	if (reached)
		lapic_self_ipi(VECTOR_TRACE_WORK);
	lapic_unmask_lvtpc();
	return reached || counted;
}

/*
 * An NMI is a PMI if a unit has a reason, or if the entry is masked: only its delivery does that.
 * Both are asked because not every processor is documented to mask the entry for an NMI. While the
 * MSRs are lent their borrower serves the interrupt.
 */
static bool pmi_nmi(struct trap_frame *frame)
{
	struct cpu *cpu = this_cpu();
	bool masked;

	if (!cpu->trace || ds_is_lent(&cpu->trace->ds))
		return false;
	masked = apic_read(APIC_LVT_PC) & LVT_MASKED;
	return serve_pmi(cpu, frame, masked) || masked;
}

static void pmi_interrupt(struct trap_frame *frame)
{
	lapic_eoi();
	serve_pmi(this_cpu(), frame, true);
}

void trace_deliver_pmi(bool nmi)
{
	if (lapic_has_lvtpc())
		lapic_set_lvtpc(VECTOR_PMI, nmi);
}

void trace_init_pmi(void)
{
	interrupt_set_handler(VECTOR_PMI, pmi_interrupt);
	nmi_add_handler(pmi_nmi);
}

/* SPDX-License-Identifier: MIT */
/*
 * The performance-monitoring unit of one virtual processor: counters, IA32_PERF_GLOBAL_*.
 * Written from the SDM (Vol 3, 17.4 to 17.13 and 18.2), not from the kernel's driver.
 *
 * Instructions and branches are counted one by one, so the guest is interpreted while a counter of
 * them runs or LBR is set, at the privilege levels that these are for, and no longer. Cycles are
 * those of the processor underneath (its TSC) outside HLT; a counter of cycles of both privilege
 * levels leaves the guest native.
 */
#pragma once

#include "monitor/vcpu.h"

/* CPUID leaf 0AH. */
struct pmu_enumeration {
	uint32_t eax, ebx, ecx, edx;
};
struct pmu_enumeration pmu_enumerate(const struct vcpu *vcpu);

/* All is zero, but IA32_PERF_GLOBAL_CTRL enables each general counter: SDM Vol 3, 9.1.1, in later
   editions' table of states after RESET. Xen takes another value for a defect of the firmware. */
void pmu_power_on(struct vcpu *vcpu);

/* False: #GP(0), nothing changed. */
bool pmu_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool pmu_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);
bool pmu_read_counter(struct vcpu *vcpu, uint32_t selector, uint64_t *value); /* RDPMC */

/* To be called when IA32_DEBUGCTL or a register of the PMU has changed: what counts, and whether
   the interpreter is needed for it. */
void pmu_update(struct vcpu *vcpu);

/* The CPLs, one bit each, at which something may be counted or enter the LBR stack, while
   OBSERVER_PMU is set. */
unsigned pmu_levels(const struct vcpu *vcpu);

/* Take the reports of saw_retired() and saw_event(); the second is called always. */
void pmu_retired(struct vcpu *vcpu, const struct retired *retired);
void pmu_event(struct vcpu *vcpu, const struct branch *event);

/* Counts the cycles up to now, with the overflows that they make. */
void pmu_tick(struct vcpu *vcpu);

/* The same between two instructions of the guest: what freezes at an overflow is frozen. */
void pmu_pass(struct vcpu *vcpu);

/* The TSC at which a counter of cycles of both levels overflows and interrupts; 0: none does. */
uint64_t pmu_deadline(const struct vcpu *vcpu);

/* HLT begins, ends: no cycle counts meanwhile. */
void pmu_wait(struct vcpu *vcpu, bool waits);

/* The Debug Store reached a threshold: OvfBuf of IA32_PERF_GLOBAL_STATUS is set. */
void pmu_buffer_overflow(struct vcpu *vcpu);

/* A region that packets go to is full: Trace_ToPA_PMI of IA32_PERF_GLOBAL_STATUS, and an interrupt
   (36.2.6.2). */
void pmu_trace_interrupt(struct vcpu *vcpu);

/* The LVT entry has been written and is not masked: an interrupt that waited for that is asked for
   again if IA32_PERF_GLOBAL_STATUS still shows a cause. */
void pmu_unmasked(struct vcpu *vcpu);
bool pmu_awaits_unmasking(const struct vcpu *vcpu);

/* A performance-monitoring interrupt was asked for, whatever becomes of it: what freezes then.
   `waits`: for pmu_unmasked(). `shown`: as pmu_buffer_overflow(). */
void pmu_interrupted(struct vcpu *vcpu, bool waits, bool shown);

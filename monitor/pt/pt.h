/* SPDX-License-Identifier: MIT */
/*
 * Intel Processor Trace of one virtual processor: SDM Vol 3, chapter 36. The guest is interpreted
 * while TraceEn is set, but for ring 0 where ring 3 alone is traced: the packets of each
 * instruction and event are in memory before the next one begins.
 */
#pragma once

#include "monitor/unit.h"

/* CPUID leaf 14H, subleafs 0 and 1: what a profile's processor has. */
struct pt_enumeration {
	uint32_t eax, ebx, ecx;
	uint32_t eax_1, ebx_1;
	uint8_t ratio;	   /* of TSC to bus clock: CBR packets, MSR_PLATFORM_INFO */
	bool crystal;	   /* CPUID leaf 15H */
	bool suspends_bts; /* 36.3.1.2: LBR and BTS do nothing while TraceEn is set */
	bool xsaves;	   /* its state is component 8 of XSAVES */
};

/* All zero where there is none, or no such subleaf. */
void pt_enumerate(const struct vcpu *vcpu, uint32_t subleaf, uint32_t value[4]);

/* False: #GP(0), nothing changed. */
bool pt_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool pt_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);

/* State component 8: SDM Vol 1, 13.5.6. Nine MSRs; the rest is reserved. */
enum { PT_STATE = 8, PT_STATE_MSRS = 9, PT_STATE_BYTES = 128 };

/* XSAVES at `rip`: the state in `area`, then TraceEn is clear, with all packets in memory. True if
   it was not the initial configuration. */
bool pt_save(struct vcpu *vcpu, uint64_t rip, uint64_t area[PT_STATE_MSRS]);

/* XRSTORS; NULL: to the initial configuration. False: #GP(0), nothing changed. */
bool pt_restore(struct vcpu *vcpu, const uint64_t *area);

/* IA32_PERF_GLOBAL_STATUS.Trace_ToPA_PMI. */
#define PT_STATUS_PMI (1ull << 55)

/* RESET: all zero but what 36.2.7 says. INIT changes no register (table 9-1). */
void pt_power_on(struct vcpu *vcpu);

/* Take the reports of saw_retired(), saw_event() and saw_cr3() while OBSERVER_FLOW is set. */
void pt_retired(struct vcpu *vcpu, const struct retired *retired);
void pt_event(struct vcpu *vcpu, const struct branch *event);
void pt_cr3(struct vcpu *vcpu);

/* As struct unit has them. */
unsigned pt_levels(const struct vcpu *vcpu);
bool pt_branches_alone(const struct vcpu *vcpu);

/* The bit of CPUID.7:EBX. */
enum { LEAF_7_EBX_PT = 1 << 25 };

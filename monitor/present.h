/* SPDX-License-Identifier: MIT */
/*
 * A rehearsal of passthrough: the virtual silicon with the CPUID leaves and the MSR rules of a
 * hypervisor that passes the Debug Store through, or that hides it. Read from the hypervisors'
 * sources, which docs/sources.md names; neither was met with BTS on.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "monitor/silicon.h"

struct hypervisor {
	const char *name; /* of present= */
	const char *says; /* half a sentence */
	char signature[13];
	uint32_t version; /* CPUID 40000001H:EAX */
	bool is_kvm;	  /* its rules of IA32_DEBUGCTL and IA32_MISC_ENABLE are KVM's, not Xen's */
	bool hides_bts, hides_pebs; /* both: neither CPUID nor the MSRs have a Debug Store */
	bool hides_lbr;
	bool hides_added;	 /* the units that a word of the command line adds */
	bool shows_ds;		 /* CPUID and IA32_DS_AREA have it all the same */
	bool leaves_available;	 /* IA32_MISC_ENABLE[12:11] read 0, whatever is hidden */
	bool ignores_hidden;	 /* what is hidden reads 0; else it raises #GP */
	bool leaves_lvt_mask;	 /* delivery disarms the LVT entry and leaves its mask bit clear */
	bool leaves_lvt_armed;	 /* delivery leaves the LVT entry as it is */
	bool silent_in_circular; /* with BTINT = 0 no PMI reaches the guest */
	uint8_t version_most;	 /* of performance monitoring; 0: no counters */
	uint64_t capabilities;	 /* bits of IA32_PERF_CAPABILITIES; 0: no PDCM */
};

/* The fate of a guest's access to an MSR. */
enum msr_answer {
	MSR_GOES_ON, /* to the processor, a write with what is in `value` then */
	MSR_REFUSED, /* #GP(0) */
	MSR_DONE,    /* nothing is left to do; a read has its value */
};

/* Hypervisor `n`; NULL past the last one. */
const struct hypervisor *hypervisor_get(unsigned n);

/* NULL: there is none of this name. */
const struct hypervisor *hypervisor_find(const char *name);

/* The rules of the processor as its guest meets them. Before the variants of the command line. */
void hypervisor_adjust(const struct hypervisor *hypervisor, const struct profile *profile,
		       struct behaviour *behaviour);

/* The counters and the LBR stack that are left of the profile. After the variants. */
void hypervisor_limit(const struct hypervisor *hypervisor, const struct behaviour *behaviour,
		      struct profile *profile);

/* What is hidden of CPUID's answer, EAX to EDX; and IA32_MISC_ENABLE of which the processor has
   `value`. */
void hypervisor_cpuid(const struct vcpu *vcpu, uint32_t leaf, uint32_t value[4]);
uint64_t hypervisor_misc_enable(const struct vcpu *vcpu, uint64_t value);

/* True if its guests have no supervisor state of XSAVES. */
bool hypervisor_hides_states(const struct hypervisor *hypervisor);

/*
 * Asked before the processor for the accesses of a guest to the MSRs of the trace units. Of
 * IA32_MISC_ENABLE, `old` is what it holds. All goes on without a hypervisor.
 */
enum msr_answer hypervisor_reads(const struct vcpu *vcpu, uint32_t index, uint64_t *value);
enum msr_answer hypervisor_writes(struct vcpu *vcpu, uint32_t index, uint64_t *value, uint64_t old);

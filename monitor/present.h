/* SPDX-License-Identifier: MIT */
/*
 * A rehearsal of passthrough: the virtual silicon behind the CPUID leaves and the MSR rules of a
 * hypervisor that passes the Debug Store through, or that hides it. Read from the hypervisors'
 * sources, which docs/sources.md names; neither was met with BTS on.
 */
#ifndef SPOOR_MONITOR_PRESENT_H
#define SPOOR_MONITOR_PRESENT_H

#include <stdbool.h>
#include <stdint.h>

#include "monitor/ds/behaviour.h"

struct vcpu;

struct hypervisor {
	const char *name; /* of present= */
	const char *says; /* half a sentence */
	char signature[13];
	uint32_t version;	 /* CPUID 40000001H:EAX */
	bool hides_ds;		 /* neither CPUID nor the MSRs have it */
	bool ignores_hidden;	 /* IA32_DS_AREA reads 0 while DS is hidden; else it raises #GP */
	bool drops_lbr;		 /* LBR and BTF of IA32_DEBUGCTL can be written and read back 0 */
	bool keeps_misc_enable;	 /* the other bits of IA32_MISC_ENABLE; else it takes no change */
	bool leaves_lvt_mask;	 /* delivery disarms the LVT entry and leaves its mask bit clear */
	bool silent_in_circular; /* with BTINT = 0 no PMI reaches the guest */
};

/* The fate of a guest's access to an MSR. */
enum msr_answer {
	MSR_GOES_ON, /* to the processor, a write with what is in `value` then */
	MSR_REFUSED, /* #GP(0) */
	MSR_DONE,    /* nothing is left to do; a read has its value */
};

/* Hypervisor `n`; NULL behind the last one. */
const struct hypervisor *hypervisor_get(unsigned n);

/* NULL: there is none of this name. */
const struct hypervisor *hypervisor_find(const char *name);

/* The rules of the processor as its guest meets them. Before the variants of the command line. */
void hypervisor_adjust(const struct hypervisor *hypervisor, struct ds_behaviour *behaviour);

/*
 * Asked before the processor for the accesses of a guest to the MSRs of the Debug Store. Of
 * IA32_MISC_ENABLE, `old` is what it holds. All goes on without a hypervisor.
 */
enum msr_answer hypervisor_reads(const struct vcpu *vcpu, uint32_t index, uint64_t *value);
enum msr_answer hypervisor_writes(const struct vcpu *vcpu, uint32_t index, uint64_t *value,
				  uint64_t old);

#endif

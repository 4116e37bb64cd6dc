/* SPDX-License-Identifier: MIT */
/*
 * The Debug Store of one virtual processor: IA32_DEBUGCTL, IA32_DS_AREA, and what a taken branch,
 * interrupt or exception does to the BTS buffer. Written from the SDM (Vol 3, 17.4.4 to 17.4.9),
 * not from the kernel's driver: the two sides check each other.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "monitor/unit.h"

/* Part of trace_reset(). */
void ds_reset(struct vcpu *vcpu);

/* INIT. */
void ds_init(struct vcpu *vcpu);

/* True while taken branches have to be seen: TR and BTS are set. */
static inline bool ds_tracing(const struct vcpu *vcpu)
{
	return vcpu->observed & OBSERVER_DS;
}

/* The CPLs, one bit each, at which a branch may be recorded while ds_tracing(). */
unsigned ds_levels(const struct vcpu *vcpu);

/*
 * Branches that saw_branch() and saw_event() reported. ds_branch() is called only while
 * ds_tracing() and branches are not suspended, ds_event() always. Each stores a record if the rules
 * say so, and may raise a PMI.
 */
void ds_branch(struct vcpu *vcpu, uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl);
void ds_event(struct vcpu *vcpu, const struct branch *event);

/*
 * What else a program does while it is traced that real silicon has been confused by; and, traced
 * or not, an instruction at which a hypervisor takes over, for
 * monitor/ds/defects/passthrough.c and hypervisor.c.
 */
enum ds_occasion { DS_AT_HLT, DS_AT_MOV_CR3, DS_AT_EXIT };
void ds_note(struct vcpu *vcpu, enum ds_occasion occasion);

/* True for the instructions at which a hypervisor takes over. */
static inline bool ds_is_exit(enum ds_occasion occasion)
{
	return occasion == DS_AT_EXIT || occasion == DS_AT_HLT;
}

/* The Debug Store in CPUID leaf 1 and IA32_MISC_ENABLE: SDM Vol 3, 17.4.5 and 17.4.9. */
struct ds_enumeration {
	bool ds, dtes64, ds_cpl;
	uint64_t unavailable; /* bits 11 (BTS) and 12 (PEBS) of IA32_MISC_ENABLE, as they stand */
};
struct ds_enumeration ds_enumerate(const struct vcpu *vcpu);

/* The first three in CPUID leaf 1. */
enum { LEAF_1_ECX_DTES64 = 1 << 2, LEAF_1_ECX_DS_CPL = 1 << 4, LEAF_1_EDX_DS = 1 << 21 };

/*
 * False: #GP(0) and nothing changed. `index` is one of the DS MSRs; IA32_MISC_ENABLE is one for
 * its two read-only bits, the others are masked out of `value`.
 */
bool ds_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool ds_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);

/* For the row. */
struct delivery ds_deliver(struct vcpu *vcpu, uint32_t entry);

/* The rules' surroundings provide this: a performance-monitoring interrupt as ds_deliver() says, */
void platform_performance_interrupt(struct vcpu *vcpu);

/*
 * and the page of the guest's memory, as the host sees it, where a store of the Debug Store to the
 * page `linear` goes. NULL: it is absent, or no memory.
 */
uint8_t *platform_ds_page(struct vcpu *vcpu, uint64_t linear);

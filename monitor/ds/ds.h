/* SPDX-License-Identifier: MIT */
/*
 * The Debug Store of one virtual processor: IA32_DEBUGCTL, IA32_DS_AREA, and what a taken branch,
 * interrupt or exception does to the BTS buffer. Written from the SDM (Vol 3, 17.4.4 to 17.4.9),
 * not from the kernel's driver: the two sides check each other.
 */
#ifndef SPOOR_MONITOR_DS_H
#define SPOOR_MONITOR_DS_H

#include <stdbool.h>
#include <stdint.h>

struct vcpu;

struct ds_behaviour;

/* Guest memory that the DS was seen to use, so that a branch need not walk the page tables. */
#define DS_PAGES 4
struct ds_page {
	uint64_t linear; /* page-aligned; an odd value matches nothing */
	uint8_t *host;
};

struct ds_state {
	uint64_t debugctl; /* IA32_DEBUGCTL, 1D9H */
	uint64_t ds_area;  /* IA32_DS_AREA, 600H */
	const struct ds_behaviour *behaviour;
	uint64_t pages_cr3; /* the page tables that `pages` came from */
	struct ds_page pages[DS_PAGES];
};

/* RESET and INIT: everything off. Before anything else here. */
void ds_reset(struct vcpu *vcpu, const struct ds_behaviour *behaviour);

/* True while taken branches have to be seen: TR and BTS are set. */
bool ds_tracing(const struct vcpu *vcpu);

/*
 * A branch, interrupt or exception was taken: `from` and `to` are linear addresses as the SDM
 * defines them for the record; the CPLs are those before and after. Called once the guest's state
 * is that at `to`. Stores a record if the rules say so, and may raise a PMI.
 */
void ds_branch(struct vcpu *vcpu, uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl);

/*
 * Forgets where the DS area and the buffer stand in memory. To be called whenever the guest has
 * run natively or invalidates a translation: MOV CR0, CR3, CR4, INVLPG, INVPCID.
 */
void ds_forget(struct vcpu *vcpu);

/*
 * #DB is being delivered: the processor clears LBR and leaves TR as it is (SDM Vol 3, 17.4.3).
 * Called before the event's own branch is recorded.
 */
void ds_debug_exception(struct vcpu *vcpu);

/* False: #GP(0) and nothing changed. `index` is one of the DS MSRs. */
bool ds_read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool ds_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);

/*
 * What the rules need from around them, apart from guest_translate() and platform_guest_page():
 * a performance-monitoring interrupt as the LVT performance counter entry says.
 */
void platform_performance_interrupt(struct vcpu *vcpu);

#endif

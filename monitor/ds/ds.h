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

/* The flags of IA32_DEBUGCTL that others have to know. */
#define DS_DEBUGCTL_LBR 1u
#define DS_DEBUGCTL_BTF 2u /* RFLAGS.TF traps taken branches only */

/*
 * Guest memory that the DS was seen to use, so that a branch need not walk the page tables: the
 * last page with an even and the last one with an odd number.
 */
struct ds_window {
	struct {
		uint64_t linear; /* page-aligned */
		uint8_t *host;
	} page[2];
};

struct ds_state {
	uint64_t debugctl; /* IA32_DEBUGCTL, 1D9H */
	uint64_t ds_area;  /* IA32_DS_AREA, 600H */
	const struct ds_behaviour *behaviour;
	uint64_t window_translations; /* vcpu->translations when the windows were filled */
	struct ds_window area, buffer;
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
 * #DB is being delivered: the processor clears LBR and BTF and leaves TR as it is (SDM Vol
 * 3, 17.4.2 and 17.4.3).
 * Called before the event's own branch is recorded.
 */
static inline void ds_debug_exception(struct ds_state *ds)
{
	ds->debugctl &= ~(uint64_t)(DS_DEBUGCTL_LBR | DS_DEBUGCTL_BTF);
}

/* False: #GP(0) and nothing changed. `index` is one of the DS MSRs. */
bool ds_read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool ds_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);

/*
 * What the rules need from around them, apart from guest_translate() and platform_guest_page():
 * a performance-monitoring interrupt as the LVT performance counter entry says.
 */
void platform_performance_interrupt(struct vcpu *vcpu);

#endif

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

struct ds_silicon;

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

/* What a branch predictor would know: see DS_PREDICTED_BY_HISTORY. */
#define DS_HISTORY 251
struct ds_history {
	uint64_t last, followed_by[DS_HISTORY];
};

/* Quadwords in which silicon that is wrong on purpose remembers: monitor/defects/defect.h. */
#define DS_REMEMBERED 6

struct ds_state {
	uint64_t debugctl; /* IA32_DEBUGCTL, 1D9H */
	uint64_t ds_area;  /* IA32_DS_AREA, 600H */
	bool tracing;	   /* what ds_tracing() says */
	bool quick[2];	   /* at CPL 0, at CPL > 0: records may be stored the short way: store.c */
	unsigned skid;	   /* branches that an interrupt still waits for; 0: none waits */
	const struct ds_silicon *silicon;
	uint64_t window_translations; /* vcpu->translations when the windows were filled */
	struct ds_window area, buffer;
	struct ds_history history;
	uint64_t remembered[DS_REMEMBERED];
};

/* RESET: everything off. Before anything else here. */
void ds_reset(struct vcpu *vcpu, const struct ds_silicon *silicon);

/* INIT. */
void ds_init(struct vcpu *vcpu);

/* True while taken branches have to be seen: TR and BTS are set. */
bool ds_tracing(const struct vcpu *vcpu);

/*
 * A branch instruction was taken: `from` and `to` are linear addresses as the SDM defines them for
 * the record; the CPLs are those before and after. Called once the guest's state is that at `to`.
 * Stores a record if the rules say so, and may raise a PMI.
 */
void ds_branch(struct vcpu *vcpu, uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl);

enum ds_cause { DS_INSTRUCTION, DS_INTERRUPT, DS_NMI, DS_EXCEPTION, DS_SOFTWARE_INTERRUPT };

struct ds_branch {
	uint64_t from, to;
	unsigned from_cpl, to_cpl;
	enum ds_cause cause;
	/* Of all but DS_INSTRUCTION: */
	uint8_t vector;
	uint64_t return_rip; /* what the handler's frame says */
};

/* The same for an interrupt or exception that was delivered to its handler. */
void ds_event(struct vcpu *vcpu, const struct ds_branch *event);

/*
 * #DB is delivered: the processor clears LBR and BTF and leaves TR as it is (SDM Vol 3, 17.4.2 and
 * 17.4.3). Part of ds_event(); for a #DB that is delivered elsewhere while nothing is traced.
 */
static inline void ds_debug_exception(struct ds_state *ds)
{
	ds->debugctl &= ~(uint64_t)(DS_DEBUGCTL_LBR | DS_DEBUGCTL_BTF);
}

/* What else a program does while it is traced that real silicon has been confused by. */
enum ds_occasion { DS_AT_HLT, DS_AT_MOV_CR3 };
void ds_note(struct vcpu *vcpu, enum ds_occasion occasion);

/* What CPUID leaf 1 and IA32_MISC_ENABLE say: SDM Vol 3, 17.4.5 and 17.4.9. */
struct ds_enumeration {
	bool ds, dtes64, ds_cpl;
	uint64_t unavailable; /* bits 11 (BTS) and 12 (PEBS) of IA32_MISC_ENABLE, as they stand */
};
struct ds_enumeration ds_enumerate(const struct vcpu *vcpu);

/*
 * False: #GP(0) and nothing changed. `index` is one of the DS MSRs; IA32_MISC_ENABLE is one for
 * its two read-only bits, the others are masked out of `value`.
 */
bool ds_read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool ds_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);

/* What the local APIC makes of a performance-monitoring interrupt: SDM Vol 3, 10.5.1. */
struct ds_delivery {
	enum { DS_DELIVER_NOTHING, DS_DELIVER_FIXED, DS_DELIVER_NMI, DS_DELIVER_OTHER } kind;
	uint8_t vector;
	uint32_t entry; /* what the LVT performance counter entry holds then */
	bool status; /* IA32_PERF_GLOBAL_STATUS.OvfBuf is set, whatever becomes of the interrupt */
};
struct ds_delivery ds_deliver(struct vcpu *vcpu, uint32_t entry);

/*
 * What the rules need from around them, apart from guest_translate(), platform_guest_page() and
 * platform_is_memory(): a performance-monitoring interrupt as ds_deliver() says.
 */
void platform_performance_interrupt(struct vcpu *vcpu);

#endif

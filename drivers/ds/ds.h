/* SPDX-License-Identifier: MIT */
/*
 * Debug Store driver: Branch Trace Store (SDM Vol 3, 17.4.5 to 17.4.9); PEBS is in pebs.h. It
 * detects the hardware, hands it out as leases over the caller's memory, moves it between leases at
 * a task switch, and takes the interrupt at the threshold.
 *
 * Only this driver writes IA32_DS_AREA; a test borrows it and IA32_DEBUGCTL with ds_checkout().
 *
 * Memory that a lease, or struct ds_idle, lies in must be present, writable, supervisor, with
 * Accessed and Dirty set, mapped at the same address in every address space, and never on a page
 * that holds code (SDM Vol 3, 17.4.9.2).
 *
 * "This CPU" means that the caller cannot move to another: preemption or interrupts are off. A
 * struct ds_cpu belongs to one CPU and is passed on that CPU only. A lease is used by one caller
 * at a time: the caller locks. PMIs may come at any moment.
 */
#pragma once

#include "drivers/debugctl.h"
#include "drivers/ds/area.h"
#include "drivers/ds/configuration.h"

/* --- Detection ------------------------------------------------------------------------------ */

enum ds_status {
	DS_NOT_PROBED,
	DS_PRESENT,	    /* BTS: TR and BTS can be set and read back */
	DS_NOT_INTEL,	    /* another vendor: 1D9H means something else there */
	DS_NOT_ENUMERATED,  /* CPUID.1:EDX[21] = 0 */
	DS_BTS_UNAVAILABLE, /* IA32_MISC_ENABLE[11] = 1 */
	DS_PT_ACTIVE,	    /* IA32_RTIT_CTL.TraceEn = 1 suspends BTS, and cannot be cleared */
	DS_ENUMERATED_BUT_ABSENT, /* CPUID and IA32_MISC_ENABLE promise it, and it is not there */
};

struct ds_caps {
	enum ds_status status;	/* of BTS; PEBS can be there without it */
	bool ds, dtes64, dscpl; /* CPUID.1: EDX[21], ECX[2] (reported, not required), ECX[4] */
	bool filters; /* by CPL: DS-CPL is there, and no erratum spoils the records with it */
	bool bts_unavailable, area; /* IA32_MISC_ENABLE[11], if `ds`; IA32_DS_AREA is in use */
	const struct ds_configuration *configuration; /* NULL if not `ds` */
	bool suspended_by_pt, excludes_lbr; /* while Intel PT traces; TR refuses LBR beside it */
	bool pebs; /* IA32_MISC_ENABLE[12] = 0, of a family that is known here, with its MSR */
	unsigned pebs_format;		/* IA32_PERF_CAPABILITIES[11:8], 0 where there is none */
	bool pebs_baseline, pebs_fault; /* its PEBS_BASELINE = 1; its PEBS_TRAP = 0 */
	/*
	 * DS_ENUMERATED_BUT_ABSENT: the MSR that gave it away, what was written to it, and whether
	 * it raised #GP or else what it read back.
	 */
	uint32_t refused_msr;
	uint64_t refused_value, read_back;
	bool refused_with_gp;
};

/* A CPU's DS area while nothing is traced, with a small buffer so that any store has a place. */
struct ds_idle {
	_Alignas(64) unsigned char area[DS_AREA_SIZE];
	unsigned char buffer[32 * 24];
};
_Static_assert(sizeof(struct ds_idle) == 1280, "no store beyond it");

/* The MSRs as ds_quiesce() found them: 0 where nothing was on, or there is no such MSR. */
struct ds_found {
	uint64_t debugctl, rtit_ctl;
};

/*
 * Turns off, on this CPU, what firmware left on: branch records, PEBS, and Intel PT, which suspends
 * BTS on some models. Returns what it found; on other vendors' processors it touches nothing. Boot,
 * once exceptions are caught, before ds_probe().
 */
struct ds_found ds_quiesce(void);

/* IA32_RTIT_CTL.TraceEn of this CPU; false where CPUID has no Intel PT. Any context. */
bool ds_pt_is_active(void);

/*
 * Detects BTS and PEBS on this CPU as the manual says, ending with an active probe that uses
 * `idle`: sets `ds_configuration`, and fills `caps`. If one is present IA32_DS_AREA is left at
 * `idle`, and IA32_DEBUGCTL at 0. Boot, interrupts off.
 */
void ds_probe(struct ds_caps *caps, struct ds_idle *idle);

/* A sentence for banner and skip lines: what there is to see and to do. Any context. */
const char *ds_status_text(enum ds_status status);

struct ds_cpu {
	struct ds_lease *loaded; /* what is on the hardware: NULL, a lease, or "lent" */
	struct ds_idle *idle;
	uint64_t area;		    /* what IA32_DS_AREA holds */
	struct ds_pebs_lease *pebs; /* holder of the PEBS half (pebs.h), or NULL */
	const struct debugctl *debugctl;
};

/* Adopts what ds_probe() found on the boot CPU; after the probe of another, once more. Boot. */
void ds_init(const struct ds_caps *caps);

/*
 * Gives this CPU its idle area and puts it into IA32_DS_AREA; `debugctl` is the CPU's. Every CPU
 * once, after ds_init(), before anything is switched on it.
 */
void ds_init_cpu(struct ds_cpu *cpu, struct ds_idle *idle, const struct debugctl *debugctl);

/* The configuration that ds_init() adopted. Any context. */
const struct ds_caps *ds_caps(void);
bool ds_has_bts(void);

/* --- Leases --------------------------------------------------------------------------------- */

enum ds_filter { DS_USER = 1, DS_KERNEL = 2 }; /* CPL > 0, CPL 0; both: everything */

/* The right to trace into one buffer. Zero-initialised by the caller, then only read by it. */
struct ds_lease {
	void *area; /* NULL: not granted */
	enum ds_overflow overflow;
	size_t margin;
	uint64_t debugctl; /* the bits of IA32_DEBUGCTL while it is loaded */
	/*
	 * The index reached the threshold. Until ds_drain() the threshold is parked above the
	 * maximum: neither a level-triggered interrupt nor the next record raises it again.
	 */
	bool overflowed;
	struct ds_cpu *cpu; /* where it is loaded, or NULL */
};

struct ds_request {
	void *area;	 /* DS_AREA_SIZE bytes, aligned to 64 */
	void *buffer;	 /* aligned to 64 */
	size_t bytes;	 /* rounded down to whole records, at least two */
	unsigned filter; /* bits of enum ds_filter */
	enum ds_overflow overflow;
	size_t margin; /* DS_O_SIGNAL: see ds_set_overflow() */
};

/*
 * Grants `lease` over the caller's memory, which is cleared. -ENODEV: no BTS; -EBUSY: granted
 * already, or Intel PT traces on this CPU and suspends BTS; -EOPNOTSUPP: a filter that needs DS-CPL
 * where there is none; -EINVAL: see struct ds_request. A refusal changes nothing. Task context.
 */
int ds_request_bts(struct ds_lease *lease, const struct ds_request *request);

/*
 * Takes `lease` off this CPU if it is loaded here, and ends it: the memory is the caller's again,
 * records included. -EINVAL: not granted; -EPERM: loaded on another CPU, which must switch it out
 * first.
 */
int ds_release_bts(struct ds_cpu *cpu, struct ds_lease *lease);

/* --- Switching ------------------------------------------------------------------------------ */

/*
 * A switch is ds_switch_out(), then the caller's departure stamp into the old lease's buffer and
 * arrival stamp into the new one's, then ds_switch_in(). MSR writes: traced to traced 3, untraced
 * to traced 2, traced to untraced 2, untraced to untraced none. Interrupts off.
 *
 * Stops recording. What is loaded stays loaded until ds_switch_in(). -EBUSY: the MSRs are lent;
 * nothing has changed.
 */
int ds_switch_out(struct ds_cpu *cpu);

/*
 * Called after ds_switch_out() to free the loaded lease for another CPU before this one has
 * anything else to record. Its area stays in IA32_DS_AREA until ds_switch_in(), which no longer
 * looks at its threshold.
 */
void ds_let_go(struct ds_cpu *cpu);

/*
 * Unloads the loaded lease and starts recording into `next` (NULL: nothing). Returns 0, or 1 if the
 * outgoing lease had crossed its threshold but its PMI is still pending: it is marked, and the
 * caller does the PMI's work. -EBUSY: the MSRs are lent; -EINVAL: `next` is not granted; -EPERM: it
 * is loaded on another CPU. An error changes nothing.
 */
int ds_switch_in(struct ds_cpu *cpu, struct ds_lease *next);

/* Both halves; errors as of ds_switch_in(), with recording stopped where `next` is refused. */
static inline int ds_switch(struct ds_cpu *cpu, struct ds_lease *next)
{
	int error = ds_switch_out(cpu);

	return error || (!cpu->loaded && !next) ? error : ds_switch_in(cpu, next);
}

/*
 * Stops recording on this CPU; ds_resume() restores the value that ds_pause() read and returned,
 * unless a DS_O_SIGNAL lease is full, whose next branch may interrupt: TR is clear until a switch.
 * They nest, in any context, NMI included, as long as each pair is closed before the pair that it
 * interrupted goes on, and no switch lies between.
 */
uint64_t ds_pause(void);
void ds_resume(const struct ds_cpu *cpu, uint64_t saved);

/*
 * Stops recording on this CPU permanently: clears TR and BTS, then IA32_DS_AREA. The loaded lease
 * can still be read through `cpu->loaded`. Any context; needs no lock.
 */
void ds_panic_stop(struct ds_cpu *cpu);

/*
 * Lends IA32_DEBUGCTL and IA32_DS_AREA of this CPU to the caller, which writes them with wrmsr();
 * preemption stays off until ds_checkin(). ds_switch() on this CPU fails meanwhile. -EBUSY: lent
 * already, or a lease is loaded, the PEBS half held, or another unit has set a bit in IA32_DEBUGCTL
 * or drivers/lbr IA32_LBR_CTL.
 * Works, and is needed, whether BTS is there or not.
 */
int ds_checkout(struct ds_cpu *cpu);

/*
 * Takes them back: recording off and the idle area in place, whatever the borrower left. -EINVAL:
 * they were not lent.
 */
int ds_checkin(struct ds_cpu *cpu);

/* Between the two. Any context. */
bool ds_is_lent(const struct ds_cpu *cpu);

/* --- The interrupt at the threshold --------------------------------------------------------- */

/*
 * The Debug Store's part of a performance-monitoring interrupt on this CPU, NMI or fixed vector. It
 * calls the owner of the PEBS half if that half reached its threshold (pebs.h). True: the loaded
 * BTS lease reached its threshold, and is marked, or it is full; the caller must see to it that it
 * is drained. False: neither, or it was marked already. Recording goes on into the margin, and
 * stops where that is full. The caller unmasks the entry of the local vector table afterwards.
 */
bool ds_pmi(struct ds_cpu *cpu);

/*
 * `count` records are in slots 0 to count - 1 of `area`, oldest first: see ds_read_bts(). `full`:
 * ds_bts_full().
 */
typedef void ds_take(void *argument, const void *area, size_t count, bool full);

/*
 * Hands the records of a DS_O_SIGNAL lease over and empties the buffer; if it is loaded here,
 * recording is paused meanwhile. Returns the number of records, or -EPERM: loaded on another CPU;
 * -EINVAL: not granted, or DS_O_WRAP. This CPU; not in an NMI.
 */
long ds_drain(struct ds_cpu *cpu, struct ds_lease *lease, ds_take *take, void *argument);

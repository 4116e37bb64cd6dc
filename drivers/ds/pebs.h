/* SPDX-License-Identifier: MIT */
/*
 * The PEBS half of a CPU's DS area (SDM Vol 3, 17.4.9 and 18.8.1.1), beside whatever BTS lease is
 * loaded there: each half has its own holder and changes nothing of the other's. The counters,
 * their event selects and IA32_PERF_GLOBAL_CTRL are the holder's; IA32_PEBS_ENABLE is this
 * driver's. Formats up to 3 (IA32_PERF_CAPABILITIES[11:8]), P6 family.
 *
 * All functions: this CPU, on which the lease was granted; on another -EPERM, for a lease that was
 * not granted -EINVAL.
 */
#ifndef SPOOR_DRIVERS_DS_PEBS_H
#define SPOOR_DRIVERS_DS_PEBS_H

#include "drivers/ds/ds.h"

struct ds_pebs_lease;

/*
 * The index reached the threshold: called once, in the context of ds_pmi(). Recording of this half
 * is stopped, until ds_pebs_reset().
 */
typedef void ds_pebs_overflowed(struct ds_pebs_lease *lease, void *argument);

/* The right to a CPU's PEBS half. Zero-initialised by the caller, then only read by it. */
struct ds_pebs_lease {
	struct ds_cpu *cpu; /* where it was granted, or NULL */
	uint64_t counters;  /* started: what IA32_PEBS_ENABLE holds; 0: stopped */
	bool overflowed;    /* stopped by the threshold */
	ds_pebs_overflowed *tell;
	void *argument;
};

struct ds_pebs_request {
	void *buffer;  /* aligned to 64, memory as a BTS lease's */
	size_t bytes;  /* rounded down to whole records, at least two */
	size_t margin; /* records between threshold and end, at least one, less than all */
	ds_pebs_overflowed *tell;
	void *argument;
};

/* Bytes of a record; 0: no PEBS, or of a format that is not known here. Any context. */
size_t ds_pebs_record_size(void);

/*
 * Grants the half of this CPU, stopped. -ENODEV: no PEBS; -EOPNOTSUPP: no callback, since PEBS
 * has no circular mode; -EBUSY: granted already, here or elsewhere, or the MSRs are lent; -EINVAL:
 * see struct ds_pebs_request; a buffer over 4096 bytes on format 0. A refusal changes nothing.
 */
int ds_request_pebs(struct ds_cpu *cpu, struct ds_pebs_lease *lease,
		    const struct ds_pebs_request *request);

/* Stops, and ends the lease: the memory is the caller's again, records included. */
int ds_release_pebs(struct ds_cpu *cpu, struct ds_pebs_lease *lease);

/* Starts what `counters` says, bits of IA32_PEBS_ENABLE (-EINVAL: not these), or stops with 0. */
int ds_pebs_start(struct ds_cpu *cpu, struct ds_pebs_lease *lease, uint64_t counters);

/* What counter `counter` is set to after each of its records. -EINVAL, too: no such counter. */
int ds_set_pebs_reset(struct ds_cpu *cpu, struct ds_pebs_lease *lease, unsigned counter,
		      uint64_t value);

/* Records so far, or an error. */
long ds_get_pebs_index(const struct ds_cpu *cpu, const struct ds_pebs_lease *lease);

/* The record in slot `at`, as the hardware wrote it; NULL: there is none. While stopped. */
const void *ds_read_pebs(const struct ds_cpu *cpu, const struct ds_pebs_lease *lease, size_t at);

/* Empties the buffer, and goes on if the threshold had stopped it. */
int ds_pebs_reset(struct ds_cpu *cpu, struct ds_pebs_lease *lease);

#endif

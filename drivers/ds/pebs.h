/* SPDX-License-Identifier: MIT */
/*
 * The PEBS half of a CPU's DS area (SDM Vol 3, 17.4.9 and 18.8.1.1), beside whatever BTS lease is
 * loaded there: each half has its own holder and changes nothing of the other's. The counters,
 * their event selects and IA32_PERF_GLOBAL_CTRL are the holder's; IA32_PEBS_ENABLE is this
 * driver's, and so is MSR_PEBS_DATA_CFG. Formats up to 4 (IA32_PERF_CAPABILITIES[11:8]); NetBurst
 * has the records of format 0, and IQ_COUNTER4 for its counter 0.
 *
 * All functions: this CPU, on which the lease was granted; on another -EPERM, for a lease that was
 * not granted -EINVAL.
 */
#pragma once

#include "drivers/ds/ds.h"

struct ds_pebs_lease;

/*
 * The index reached the threshold: called once, in the context of ds_pmi(). Recording of this half
 * is stopped until the lease is released.
 */
typedef void ds_pebs_overflowed(struct ds_pebs_lease *lease, void *argument);

/* The right to a CPU's PEBS half. Zero-initialised by the caller, then only read by it. */
struct ds_pebs_lease {
	struct ds_cpu *cpu; /* where it was granted, or NULL */
	const char *name;   /* of the holder */
	uint64_t counters;  /* started: of ds_pebs_counters(); 0: stopped */
	size_t record;	    /* bytes of each */
	bool overflowed;    /* stopped by the threshold */
	ds_pebs_overflowed *tell;
	void *argument;
};

struct ds_pebs_request {
	void *buffer;	   /* aligned to 64, memory as a BTS lease's */
	size_t bytes;	   /* rounded down to whole records, at least two */
	size_t margin;	   /* records between threshold and end, at least one, less than all */
	unsigned branches; /* entries of the LBR stack in each record, 0 to DS_PEBS_BRANCHES */
	const char *name;
	ds_pebs_overflowed *tell;
	void *argument;
};

/*
 * Bytes of a record with so many entries of the LBR stack; 0: no PEBS, or of a format that is not
 * known here, or records of this processor have no entries. Any context.
 */
enum { DS_PEBS_BRANCHES = 32 };
size_t ds_pebs_record_size_with(unsigned branches);

/* The same without any. */
static inline size_t ds_pebs_record_size(void)
{
	return ds_pebs_record_size_with(0);
}

/* Bits of the counters that can take samples on this processor, if it has them; fixed ones from bit
   32 on. */
uint64_t ds_pebs_counters(void);

/* The name of the holder of this CPU's half, or NULL. */
const char *ds_pebs_holder(const struct ds_cpu *cpu);

/*
 * Grants the half of this CPU, stopped. -ENODEV: no PEBS; -EOPNOTSUPP: no callback, since PEBS
 * has no circular mode; -EBUSY: granted already, here or elsewhere, or the MSRs are lent; -EINVAL:
 * see struct ds_pebs_request; a buffer over 4096 bytes on format 0. A refusal changes nothing. The
 * stack's own registers are the caller's: an entry is what is there.
 */
int ds_request_pebs(struct ds_cpu *cpu, struct ds_pebs_lease *lease,
		    const struct ds_pebs_request *request);

/* Stops, and ends the lease: the memory is the caller's again, records included. */
int ds_release_pebs(struct ds_cpu *cpu, struct ds_pebs_lease *lease);

/* Starts `counters`, some of ds_pebs_counters() (-EINVAL: others), or stops with 0. */
int ds_pebs_start(struct ds_cpu *cpu, struct ds_pebs_lease *lease, uint64_t counters);

/* Sets the value of counter `counter` after each of its records. -EINVAL, too: no such counter. */
int ds_set_pebs_reset(struct ds_cpu *cpu, struct ds_pebs_lease *lease, unsigned counter,
		      uint64_t value);

/* Records so far, or an error. */
long ds_get_pebs_index(const struct ds_cpu *cpu, const struct ds_pebs_lease *lease);

/* The record in slot `at`, as the hardware wrote it; NULL: there is none. While stopped. */
const void *ds_read_pebs(const struct ds_cpu *cpu, const struct ds_pebs_lease *lease, size_t at);

/* A record whatever its format; a member that `has` does not name is 0. */
struct ds_sample {
	unsigned has;	      /* DS_SAMPLE_... */
	uint64_t ip, flags;   /* where the program goes on */
	uint64_t general[16]; /* RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15 */
	uint64_t event_ip;    /* of the instruction that was sampled */
	uint64_t counters;    /* STATUS, COUNTERS */
	uint64_t address, source, latency, transaction, tsc;
	const uint64_t
		*entry;	  /* of the LBR stack, newest first, three words each: FROM, TO, INFO */
	unsigned entries; /* of these, as many as the record says */
};

enum {
	DS_SAMPLE_EVENT_IP = 1,
	DS_SAMPLE_STATUS = 2,	/* `counters` is IA32_PERF_GLOBAL_STATUS before the record */
	DS_SAMPLE_COUNTERS = 4, /* `counters` caused the record */
	DS_SAMPLE_ADDRESS = 8,
	DS_SAMPLE_SOURCE = 0x10,
	DS_SAMPLE_LATENCY = 0x20,
	DS_SAMPLE_TRANSACTION = 0x40,
	DS_SAMPLE_TSC = 0x80,
	DS_SAMPLE_IP = 0x100,
	DS_SAMPLE_REGISTERS = 0x200, /* `flags` and `general` */
};

/* The fields (DS_SAMPLE_*) that every record of this processor has. Any context. */
unsigned ds_sample_has(void);

/* Decodes a record, as ds_read_pebs() returns it. Any context. */
void ds_read_sample(const void *record, struct ds_sample *sample);

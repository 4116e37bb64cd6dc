/* SPDX-License-Identifier: MIT */
/*
 * Intel Processor Trace: what a CPU can trace, its output through a table of physical addresses
 * (ToPA), and starting and stopping it (SDM Vol 3, chapter 36).
 *
 * A struct pt_trace is one CPU's, or one thread's: it outlives a stop, and the next start goes on
 * with the same configuration where the last one stopped. pt_load(), pt_start() and pt_stop() are
 * for the CPU that is to be traced, with interrupts off or with the caller unable to move; they may
 * be called in an NMI. The caller sees to it that one trace at a time is started on a CPU.
 */
#pragma once

#include "abi/errno.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PT_RANGES_MOST = 4,
	PT_ORDER_MOST = 15, /* of a chunk: 4 KiB << order */
	PT_MARK_BYTES = 32,
};

/* CPUID leaf 14H. All zero: no Intel PT, or not Intel. */
struct pt_caps {
	bool present;
	bool cr3_filter, psb_cyc, ip_filter, mtc, ptwrite, power_events;
	bool topa, topa_many, single_range, fabric, lip;
	bool always_branches; /* erratum BDM106: no trace without BranchEn */
	bool xsaves;	      /* XSAVES and XRSTORS have the state of Intel PT: component 8 */
	unsigned ranges;      /* pairs of IA32_RTIT_ADDRn_A and _B */
	/* Bitmaps of values that IA32_RTIT_CTL takes: MTCFreq, CycThresh, PSBFreq. */
	uint16_t mtc_periods, cycle_thresholds, psb_frequencies;
};

/*
 * Detects Intel PT. Boot, once. `is_memory` says whether all bytes from a physical address on are
 * memory that a trace may be written to; pt_prepare() calls it.
 */
void pt_init(bool (*is_memory)(uint64_t physical, uint64_t bytes));

/* The capabilities that pt_init() found. Any context. */
const struct pt_caps *pt_caps(void);

/* The MSRs as pt_init() found them: after RESET, if no firmware used them. 0: there is none. */
struct pt_found {
	uint64_t output_base, output_mask_ptrs, control, status, cr3_match;
	uint64_t address[2 * PT_RANGES_MOST];
};
struct pt_found *pt_found(void); /* a restart of the kernel sets what the first start found */

/* The memory of a trace. The driver allocates nothing. */
struct pt_buffer {
	uint64_t *table; /* count + 1 entries, contiguous, 4 KiB aligned, at physical address: */
	uint64_t table_address;
	const uint64_t *chunks; /* physical addresses, each a multiple of 4096 << order */
	size_t count;		/* 1 or more; 1 alone where the processor has no topa_many */
	unsigned order;
	uint8_t *last_end; /* where the end of the last chunk is mapped: one past its last byte */
	bool circular;	   /* false: tracing stops when the last chunk is full */
	bool interrupts;   /* each chunk that is full raises the PMI */
};

struct pt_configuration {
	/* IA32_RTIT_CTL without TraceEn, ToPA, FabricEn and ADDRn_CFG. */
	uint64_t control;
	uint64_t cr3_match;
	struct {
		uint64_t first, last; /* linear addresses, both within the range */
		unsigned use;	      /* 0: none; RTIT_ADDR_FILTER, RTIT_ADDR_TRACE_STOP */
	} range[PT_RANGES_MOST];
};

struct pt_trace {
	struct pt_buffer buffer;
	struct pt_configuration configuration;
	uint64_t output_base, output_mask_ptrs; /* where the capture goes on */
	uint64_t status;			/* IA32_RTIT_STATUS at the last stop */
};

struct pt_state {
	uint64_t end;	  /* bytes from the start of chunk 0 to where the capture ended */
	uint64_t valid;	  /* bytes of the buffer that hold packets */
	bool wrapped;	  /* circular: the oldest byte is at `end` */
	bool stopped;	  /* it ended because the last chunk was full, or by a TraceStop range */
	bool full;	  /* of these, the last chunk */
	bool table_error; /* IA32_RTIT_STATUS.Error: the processor gave up on the table */
};

/*
 * Whether the processor takes a configuration: 0, or -EINVAL: a value that no processor takes;
 * -EOPNOTSUPP: this one has no such filter or packet. Any context.
 */
int pt_check(const struct pt_configuration *configuration);

/*
 * Prepares `trace` from its buffer and configuration: writes the table, marks the buffer's end,
 * begins at chunk 0. -ENODEV: no Intel PT with ToPA; -EINVAL: a buffer or a value that is out of
 * range, or a chunk or a table where no trace may be written, or a table inside a chunk;
 * -EOPNOTSUPP: the processor has no such filter, packet, or table of more than one chunk. A refusal
 * changes nothing. Any CPU, while the trace is not started.
 */
int pt_prepare(struct pt_trace *trace);

/* Back to an empty buffer: chunk 0, no status. Any CPU, while the trace is not started. */
void pt_rewind(struct pt_trace *trace);

/* The value of IA32_RTIT_CTL while the trace is started. Any context. */
uint64_t pt_control(const struct pt_trace *trace);

/* 0; -ENOSPC: the buffer is full; -EIO: its table has an error; pt_rewind() mends both. */
int pt_ready(const struct pt_trace *trace);

/*
 * Writes all MSRs but IA32_RTIT_CTL and IA32_RTIT_STATUS. -EBUSY: TraceEn is set; else as
 * pt_ready(). Ranges that are not used are written as 0.
 */
int pt_load(const struct pt_trace *trace);

/*
 * Starts what pt_load() loaded: status first, control last. -EIO: the processor refuses `control`
 * though CPUID offers it; nothing is started.
 */
int pt_start(const struct pt_trace *trace);

/*
 * Clears TraceEn on this CPU; pt_resume() is given what it returned and sets it again, if it was
 * set and the trace has not stopped by itself. They nest as ds_pause() does. Any context, NMI
 * included.
 */
uint64_t pt_pause(void);
void pt_resume(uint64_t control);

/* Clears IA32_RTIT_CTL of this CPU, TraceEn first. Any context, NMI included. */
void pt_off(void);

/*
 * Clears TraceEn, then sees to it that all packets are in memory, and keeps where the trace
 * stopped. Harmless if it stopped by itself.
 */
void pt_stop(struct pt_trace *trace);

/*
 * The capture of a stopped trace. The processor does not say that it wrapped: pt_prepare() and
 * pt_rewind() mark the last PT_MARK_BYTES of the buffer with a byte that begins no packet, and no
 * payload is long enough to hold half of them. A capture that ends within 15 bytes of the end, all
 * of them that byte, counts as one that did not wrap. Any CPU.
 */
struct pt_state pt_state(const struct pt_trace *trace);

/*
 * --- A buffer that is read while it is written: not circular, with interrupts; stream.c ---------
 *
 * Its chunks are used in a ring: pt_set_stop() moves the chunk at whose end the trace stops to the
 * one before the reader's, so that nothing is overwritten before it was read.
 */

/*
 * True if a chunk that is full raised the performance-monitoring interrupt; it is acknowledged. Any
 * context, NMI included, where Intel PT is present.
 */
bool pt_pmi(void);

/* Keeps where `trace` is, which is started on this CPU while pt_pause() has TraceEn clear. NMI. */
void pt_look(struct pt_trace *trace);

/* Of a stopped trace: it stopped at the end of a chunk; the offset at which it goes on. Any CPU. */
bool pt_is_full(const struct pt_trace *trace);
uint64_t pt_position(const struct pt_trace *trace);

/*
 * The trace is to stop at the end of `chunk`, and goes on in the next chunk when it is started if
 * it has stopped at the end of one. Any CPU, while it is not started.
 */
void pt_set_stop(struct pt_trace *trace, size_t chunk);

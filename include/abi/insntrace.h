/* SPDX-License-Identifier: MIT */
/*
 * Intel Processor Trace as a user program sees it: SYS_insntrace (request, descriptor, address,
 * bytes); docs/insntrace.2. Packets: SDM Vol 3, 36.4.
 */
#pragma once

#include <stdint.h>

enum {
	INSNTRACE_INITIALIZE,	     /* (mode, 0, traces): 0 */
	INSNTRACE_TERMINATE,	     /* (0, 0, 0): 0 */
	INSNTRACE_GET_ALLOCATION,    /* (0, struct insntrace_allocation *, its size): 0 */
	INSNTRACE_ALLOCATE_BUFFER,   /* (0, struct insntrace_config *, its size): descriptor */
	INSNTRACE_GET_BUFFER_CONFIG, /* (descriptor, struct insntrace_config *, its size): 0 */
	INSNTRACE_GET_BUFFER_STATE,  /* (descriptor, struct insntrace_state *, its size): 0 */
	INSNTRACE_READ_BUFFER,	     /* (descriptor, struct insntrace_read *, its size): bytes */
	INSNTRACE_FREE_BUFFER,	     /* (descriptor, 0, 0): 0 */
	INSNTRACE_START,	     /* (0, 0, 0): 0 */
	INSNTRACE_STOP,		     /* (0, 0, 0): 0 */
	INSNTRACE_ASSIGN_THREAD,     /* (descriptor, pid, 0): 0 */
	INSNTRACE_RELEASE_THREAD,    /* (descriptor, 0, 0): 0 */
	INSNTRACE_READ_STREAM,	     /* (descriptor, struct insntrace_read *, its size): bytes */
	INSNTRACE_GET_HOLDER,	     /* (INSNTRACE_HOLDER_..., 0, 0): pid */
	INSNTRACE_GET_ITEMS,	     /* (pid or 0, struct insntrace_read *, its size): bytes */
};

/* The modes: every CPU has a buffer, whatever runs there; or each of some threads has one. */
enum { INSNTRACE_CPUS, INSNTRACE_THREADS };

enum {
	INSNTRACE_TRACES_MOST = 512,
	INSNTRACE_CHUNKS_MOST = 4096,
	INSNTRACE_ORDER_MOST = 8,
	INSNTRACE_RANGES = 4,
};
#define INSNTRACE_BYTES_MOST (256ul << 20) /* of a buffer */

/* struct insntrace_config, flags. */
enum {
	INSNTRACE_CIRCULAR = 1, /* keep the newest; else the trace stops when the buffer is full */
	INSNTRACE_INHERIT = 2,	/* THREADS: a child of the thread gets a buffer that has none */
	INSNTRACE_STREAM = 4,	/* packets are read while they are written; two chunks or more */
	INSNTRACE_CONFIG_FLAGS = 7,
};

/* INSNTRACE_GET_HOLDER: of the session; of a trace of branches, BTS. */
enum { INSNTRACE_HOLDER_PT, INSNTRACE_HOLDER_BTS };

struct insntrace_config {
	uint32_t chunks;      /* 1 to INSNTRACE_CHUNKS_MOST */
	uint32_t chunk_order; /* of each: 4 KiB << chunk_order, up to INSNTRACE_ORDER_MOST */
	uint32_t flags;
	uint32_t zero;
	uint64_t control;	/* IA32_RTIT_CTL without TraceEn, ToPA and FabricEn */
	uint64_t address_space; /* with CR3Filter: a pid, whose memory is traced; else 0 */
	struct {
		uint64_t first, last; /* linear addresses, both within; how: control, ADDRn_CFG */
	} range[INSNTRACE_RANGES];
};
_Static_assert(sizeof(struct insntrace_config) == 96, "the interface");

/* struct insntrace_state, flags. */
enum {
	INSNTRACE_WRAPPED = 1, /* circular: older packets were overwritten */
	INSNTRACE_STOPPED = 2, /* the trace stopped before it was told to: full, or a TraceStop */
	INSNTRACE_FULL = 4,    /* the last chunk was full */
	INSNTRACE_ERROR = 8,   /* the processor gave up on its output: IA32_RTIT_STATUS.Error */
	INSNTRACE_GAP = 16,    /* STREAM: the trace stopped at times: -EPIPE of READ_STREAM */
};

struct insntrace_state {
	uint64_t capture_end; /* bytes from the start of chunk 0 to where the capture ended */
	uint64_t available;   /* bytes that can be read */
	uint32_t flags;
	uint32_t pid; /* THREADS: whose buffer it is; 0: nobody's */
};
_Static_assert(sizeof(struct insntrace_state) == 24, "the interface");

struct insntrace_allocation {
	uint32_t mode, traces;
	uint32_t started; /* 1: it is */
	uint32_t missed;  /* children since START that found no buffer to inherit */
};
_Static_assert(sizeof(struct insntrace_allocation) == 16, "the interface");

struct insntrace_read {
	uint64_t offset;  /* from the oldest byte on; READ_STREAM: 0 */
	uint64_t address; /* of the memory that takes at most `bytes` */
	uint64_t bytes;
};
_Static_assert(sizeof(struct insntrace_read) == 24, "the interface");

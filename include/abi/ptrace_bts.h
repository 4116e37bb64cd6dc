/* SPDX-License-Identifier: MIT */
/* Branch trace as a user program sees it: SYS_ptrace with these requests; docs/ptrace-bts.2. */
#pragma once

#include <stdint.h>

enum {
	PTRACE_BTS_CONFIG = 40, /* (struct ptrace_bts_config *, its size): bytes read */
	PTRACE_BTS_STATUS = 41, /* (struct ptrace_bts_config *, its size): bytes written */
				/* Any other size: `size` and `flags` alone; CONFIG: 0 */
	PTRACE_BTS_SIZE = 42,	/* (0, 0): records that can be read */
	PTRACE_BTS_GET = 43,	/* (record *, index, 0 = newest): bytes written */
	PTRACE_BTS_CLEAR = 44,	/* (0, 0): 0 */
	PTRACE_BTS_DRAIN = 45,	/* (records, bytes): how many of the oldest it moved there */
	PTRACE_BTS_READ = 46,	/* (records, bytes): how many of the oldest it copied there */
};

/* Instead of a pid, for a tracer of everything that runs on CPU n. */
#define PTRACE_BTS_CPU(n) (-1 - (int)(n))

/* struct ptrace_bts_config, flags. */
enum {
	PTRACE_BTS_TRACE = 1,	  /* record branches */
	PTRACE_BTS_SCHED = 2,	  /* record where the tracee arrives on a CPU and departs */
	PTRACE_BTS_SIGNAL = 4,	  /* stop the tracee when the buffer is nearly full */
	PTRACE_BTS_CUT_SIZE = 8,  /* be content with as much memory as is left */
	PTRACE_BTS_USER = 0x10,	  /* branches of ring 3; so too if neither this nor the next */
	PTRACE_BTS_KERNEL = 0x20, /* branches of the kernel; both: all, the transitions too */
	PTRACE_BTS_STOP = 0x40,	  /* keep the oldest: stop recording when full */
	PTRACE_BTS_SIGNAL_TRACEE = 0x80,  /* SIGNAL: send the signal to the tracee */
	PTRACE_BTS_SIGNAL_TRACER = 0x100, /* SIGNAL: and send the signal to the tracer */
	PTRACE_BTS_SETTABLE = 0x1ff,

	/* From STATUS; CONFIG takes and ignores them: */
	PTRACE_BTS_SOFTWARE = 0x10000,	/* the kernel filters, not the hardware */
	PTRACE_BTS_LOST = 0x20000,	/* records were overwritten, or found no room */
	PTRACE_BTS_TRUNCATED = 0x40000, /* the hardware ran out of room: records are missing */
	PTRACE_BTS_FULL = 0x80000,	/* STOP has stopped */
	PTRACE_BTS_REPORTED = 0xf0000,
};

/* The names of the patch of 2007-12-14 to Linux, which had these four. */
enum {
	PTRACE_BTS_O_TRACE = PTRACE_BTS_TRACE,
	PTRACE_BTS_O_SCHED = PTRACE_BTS_SCHED,
	PTRACE_BTS_O_SIGNAL = PTRACE_BTS_SIGNAL,
	PTRACE_BTS_O_CUT_SIZE = PTRACE_BTS_CUT_SIZE,
};

/* The first two members are all that the structure of that patch has: two longs. */
struct ptrace_bts_config {
	uint64_t size;	   /* of the buffer in bytes; whole records; 0: none */
	uint64_t flags;	   /* as above */
	uint32_t signal;   /* with SIGNAL: the one to stop with; 0: SIGIO */
	uint32_t bts_size; /* of a record; CONFIG: that, or 0 */
};
_Static_assert(sizeof(struct ptrace_bts_config) == 24, "the interface");

/* struct ptrace_bts_record, qualifier. */
enum {
	PTRACE_BTS_BRANCH = 1,
	PTRACE_BTS_TASK_ARRIVES = 2, /* recording begins on a CPU */
	PTRACE_BTS_TASK_DEPARTS = 3, /* recording ends there */
	PTRACE_BTS_GAP = 4,	     /* records are missing here */
};

struct ptrace_bts_record {
	uint64_t qualifier;
	union {
		struct {
			uint64_t from, to; /* linear addresses */
		};
		struct {
			uint64_t tsc;
			uint64_t pid_cpu; /* pid | cpu << 32 */
		};
		struct {
			uint64_t missing; /* how many; 0: that is not known */
			uint64_t zero;
		};
	};
};
_Static_assert(sizeof(struct ptrace_bts_record) == 24, "the interface");

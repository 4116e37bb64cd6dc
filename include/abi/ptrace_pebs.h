/* SPDX-License-Identifier: MIT */
/* Samples as a user program sees them: SYS_ptrace with these requests; docs/ptrace-pebs.2. */
#pragma once

#include <stdint.h>

enum {
	PTRACE_PEBS_CONFIG = 48, /* (struct ptrace_pebs_config *, its size): bytes read */
	PTRACE_PEBS_STATUS = 49, /* (struct ptrace_pebs_config *, its size): bytes written */
	PTRACE_PEBS_SIZE = 50,	 /* (0, 0): samples that can be read */
	PTRACE_PEBS_CLEAR = 51,	 /* (0, 0): 0 */
	PTRACE_PEBS_DRAIN = 52,	 /* (samples, bytes): how many of the oldest it moved there */
	PTRACE_PEBS_READ = 53,	 /* (samples, bytes): how many of the oldest it copied there */
};

/* Instead of a pid, for a tracer of everything that runs on CPU n; on all CPUs at once. */
#define PTRACE_PEBS_CPU(n)   (-1 - (int)(n))
#define PTRACE_PEBS_ALL_CPUS INT32_MIN

/* struct ptrace_pebs_config, event: by the names of SDM Vol 3, chapter 19. */
enum {
	PTRACE_PEBS_INST_RETIRED = 1,
	PTRACE_PEBS_BR_INST_RETIRED_ALL_BRANCHES = 2,
	PTRACE_PEBS_BR_INST_RETIRED_CONDITIONAL = 3,
	PTRACE_PEBS_BR_INST_RETIRED_NEAR_CALL = 4,
	PTRACE_PEBS_BR_INST_RETIRED_NEAR_RETURN = 5,
	PTRACE_PEBS_BR_INST_RETIRED_NEAR_TAKEN = 6,
	PTRACE_PEBS_BR_MISP_RETIRED_ALL_BRANCHES = 7,
	PTRACE_PEBS_MEM_INST_RETIRED_ALL_LOADS = 8,
	PTRACE_PEBS_MEM_INST_RETIRED_ALL_STORES = 9,
	PTRACE_PEBS_EVENTS
};

/* With RAW: event select, unit mask, E, INV and CMASK, as in IA32_PERFEVTSELx; no other bit. */
#define PTRACE_PEBS_RAW_BITS 0xff84ffffu

/* struct ptrace_pebs_config, flags; those that BTS has too have its values. */
enum {
	PTRACE_PEBS_SIGNAL = 4,		/* stop the tracee when the buffer is full */
	PTRACE_PEBS_CUT_SIZE = 8,	/* be content with as much memory as is left */
	PTRACE_PEBS_USER = 0x10,	/* events of ring 3; so too if neither this nor the next */
	PTRACE_PEBS_KERNEL = 0x20,	/* events of the kernel */
	PTRACE_PEBS_STOP = 0x40,	/* keep the oldest: stop taking samples when full */
	PTRACE_PEBS_COUNTER = 0x80,	/* by the counter that `counter` says; else by any */
	PTRACE_PEBS_CALL_STACK = 0x100, /* with `branches`: the calls that have not returned */
	PTRACE_PEBS_RAW = 0x200,	/* `event` is bits of an event select */
	PTRACE_PEBS_COUNT = 0x400,	/* count alone: a uint64_t is read, no samples */
	PTRACE_PEBS_INTERRUPT = 0x800,	/* samples at the counter's interrupt, not by PEBS */
	PTRACE_PEBS_SETTABLE = 0xffc,

	/* From STATUS; CONFIG takes and ignores them: */
	PTRACE_PEBS_LOST = 0x20000,	 /* samples found no room, or are of no known counter */
	PTRACE_PEBS_TRUNCATED = 0x40000, /* the hardware ran out of room: samples are missing */
	PTRACE_PEBS_FULL = 0x80000,	 /* STOP has stopped */
	PTRACE_PEBS_BLOCKED = 0x100000,	 /* `holder` had what was needed: events were not counted */
	PTRACE_PEBS_REPORTED = 0x1e0000,
};

#define PTRACE_PEBS_HOLDER 32 /* bytes of a holder's name, with the 0 at its end */

struct ptrace_pebs_config {
	uint64_t size;			 /* of the buffer in bytes; whole samples; 0: none */
	uint64_t flags;			 /* as above */
	uint64_t period;		 /* events before the one that is sampled */
	uint32_t event;			 /* as above; with RAW: its code */
	uint32_t counter;		 /* with COUNTER: its number */
	uint32_t signal;		 /* with SIGNAL: the one to stop with; 0: SIGPROF */
	uint32_t sample_size;		 /* of one sample; CONFIG: that, or 0 */
	char holder[PTRACE_PEBS_HOLDER]; /* CONFIG: written where it fails with EBUSY */
	/* A caller whose structure ends here has 0 in what follows. */
	uint32_t branches; /* of each sample, the newest; more than there can be: as many as that */
	uint32_t kinds;	   /* of these: PTRACE_LBR_CONDITIONAL and so on; 0: every kind */
};
_Static_assert(sizeof(struct ptrace_pebs_config) == 80, "the interface");
#define PTRACE_PEBS_CONFIG_BYTES_1 72 /* of the structure without branches */

/* struct ptrace_pebs_sample, has: what is absent is 0. */
enum {
	PTRACE_PEBS_HAS_IP = 1,
	PTRACE_PEBS_HAS_REGISTERS = 2, /* rflags and general */
	PTRACE_PEBS_HAS_EVENT_IP = 4,
	PTRACE_PEBS_HAS_ADDRESS = 8,
	PTRACE_PEBS_HAS_TRANSACTION = 0x10,
	PTRACE_PEBS_HAS_TSC = 0x20,
	PTRACE_PEBS_HAS_BRANCHES = 0x40, /* those after the sample, up to one with `from` = 0 */
	PTRACE_PEBS_HAS_SKID = 0x80,	 /* taken by INTERRUPT: `ip` is some instructions later */
};

/* One sample, whatever the format of the processor's records is. */
struct ptrace_pebs_sample {
	uint64_t has;
	uint64_t pid_cpu;     /* pid | cpu << 32 */
	uint64_t ip;	      /* where the program goes on */
	uint64_t rflags;      /* as the instruction left them, like the registers */
	uint64_t general[16]; /* RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15 */
	uint64_t event_ip;    /* of the instruction that was sampled */
	uint64_t address;     /* that it accessed */
	uint64_t transaction; /* how a transaction of it ended: SDM Vol 3, table 18-45 */
	uint64_t tsc;
};
_Static_assert(sizeof(struct ptrace_pebs_sample) == 192, "the interface");

/* After each sample as many as `branches` of the configuration says, newest first. */
struct ptrace_pebs_branch {
	uint64_t from, to;
	uint32_t flags;	 /* PTRACE_LBR_MISPREDICTED and so on */
	uint32_t cycles; /* since the branch before; 0: not known */
};
_Static_assert(sizeof(struct ptrace_pebs_branch) == 24, "the interface");

/* SPDX-License-Identifier: MIT */
/* The requests of SYS_ptrace for the newest branches, by the LBR stack: docs/ptrace-lbr.2. */
#pragma once

#include <stdint.h>

/* (addr, data): what the call returns. */
enum {
	PTRACE_LBR_CONFIG = 54, /* (struct ptrace_lbr_config *, its size): bytes read */
	PTRACE_LBR_STATUS = 55, /* (struct ptrace_lbr_config *, its size): bytes written */
	PTRACE_LBR_CLEAR = 56,	/* (0, 0): 0 */
	PTRACE_LBR_READ = 57,	/* (branches, bytes): how many of the newest it copied there */
};

/* Instead of a pid, for the newest branches of CPU n, whatever runs there. */
#define PTRACE_LBR_CPU(n) (-1 - (int)(n))

/* struct ptrace_lbr_config, flags; those that BTS has too have its values. */
enum {
	PTRACE_LBR_USER = 0x10,	       /* branches of ring 3; so too if neither this nor the next */
	PTRACE_LBR_KERNEL = 0x20,      /* branches of the kernel */
	PTRACE_LBR_CALL_STACK = 0x100, /* the calls that have not returned */
	PTRACE_LBR_SETTABLE = 0x130,
};

/* struct ptrace_lbr_config, kinds: of near branches, but the last. */
enum {
	PTRACE_LBR_CONDITIONAL = 1,
	PTRACE_LBR_CALL = 2, /* relative; so JUMP */
	PTRACE_LBR_CALL_INDIRECT = 4,
	PTRACE_LBR_RETURN = 8,
	PTRACE_LBR_JUMP_INDIRECT = 0x10,
	PTRACE_LBR_JUMP = 0x20,
	PTRACE_LBR_FAR = 0x40, /* interrupts and exceptions too */
	PTRACE_LBR_KINDS = 0x7f,
};

struct ptrace_lbr_config {
	uint32_t entries;     /* of them; more than the processor has: as many as that; 0: none */
	uint32_t branch_size; /* of one branch; CONFIG: that, or 0 */
	uint64_t flags;	      /* as above */
	uint32_t kinds;	      /* as above; 0: every kind */
	/* From STATUS; CONFIG takes and ignores them: */
	uint32_t available; /* branches that can be read */
	uint32_t depth;	    /* entries that the processor has */
	uint32_t format;    /* IA32_PERF_CAPABILITIES.LBR_FMT; 63: architectural entries */
};
_Static_assert(sizeof(struct ptrace_lbr_config) == 32, "the interface");

/* struct ptrace_lbr_branch, flags; and the branch's kind, as above, where the entries say it. */
enum {
	PTRACE_LBR_MISPREDICTED = 1,
	PTRACE_LBR_IN_TX = 2,	 /* in a transaction */
	PTRACE_LBR_TX_ABORT = 4, /* a transaction's abort */
	PTRACE_LBR_KIND_SHIFT = 8,
};
#define PTRACE_LBR_KIND(flags) ((flags) >> PTRACE_LBR_KIND_SHIFT & PTRACE_LBR_KINDS) /* 0: none */

/* One branch, whatever the format of the processor's entries is. */
struct ptrace_lbr_branch {
	uint64_t from, to;
	uint32_t flags;	  /* as above; 0 where the format has none */
	uint32_t cycles;  /* since the branch before; 0: not known */
	uint64_t pid_cpu; /* pid | cpu << 32 */
};
_Static_assert(sizeof(struct ptrace_lbr_branch) == 32, "the interface");

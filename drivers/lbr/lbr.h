/* SPDX-License-Identifier: MIT */
/*
 * Last branch records: a stack of the newest taken branches, in registers of the processor. There
 * are two kinds. That of a model (SDM Vol 3, 17.4.8 and 17.5 to 17.11) records while
 * IA32_DEBUGCTL.LBR is set, which is written by drivers/debugctl.h alone; MSR_LBR_SELECT, where
 * there is one, says which branches enter. The architectural one (SDM Vol 3 of 2022, chapter 18)
 * has IA32_LBR_CTL for both. A debug exception stops either.
 *
 * All functions but lbr_init() and lbr_caps() are for this CPU, with IF = 0, and for a processor
 * with a stack. The caller sees to it that one program at a time is started.
 */
#pragma once

#include "abi/ptrace_lbr.h"
#include "drivers/debugctl.h"

enum { LBR_MOST = 32 };

/* What lbr_init() found. All zero: no stack, or none that is known here. */
struct lbr_caps {
	bool architectural;
	unsigned depth;		      /* entries; with TOS a power of two */
	unsigned depths;	      /* bit n: 8 * (n + 1) can be had; 0: no choice */
	unsigned format;	      /* LBR_FMT_...: registers.h */
	uint32_t from, to, info, top; /* MSRs of the first entry; of TOS; `info`, `top` 0: none */
	uint64_t select;    /* what can be left out, as bits of MSR_LBR_SELECT; 0: nothing */
	bool freezes;	    /* FREEZE_LBRS_ON_PMI can be set */
	uint64_t flags;	    /* bits of FROM, or of INFO, that are flags */
	bool cycles, kinds; /* INFO of the architectural ones has these */
	bool xsaves;	    /* XSAVES and XRSTORS have their state: component 15 */
};

/* Detects the stack, and tries it. Boot, once, IA32_DEBUGCTL = 0. */
void lbr_init(void);

/* Stops the architectural ones, which firmware may have left on. Boot, every CPU. */
void lbr_init_cpu(void);

/* Any context. */
const struct lbr_caps *lbr_caps(void);

/*
 * What enters; without a filter everything, whatever this says. With LBR_FREEZES, and where the
 * kernel's branches enter, a performance-monitoring interrupt stops the stack (17.4.7): those of
 * its handler, and of its return, do not push out what led to it.
 */
struct lbr_program {
	uint64_t flags; /* PTRACE_LBR_...: of branches that end in ring 3, in ring 0; call stack */
	unsigned kinds; /* PTRACE_LBR_CONDITIONAL and so on */
};
#define LBR_FREEZES (1ull << 63) /* of flags */

static inline bool lbr_wants_freeze(const struct lbr_program *program)
{
	return program->flags & (LBR_FREEZES | PTRACE_LBR_KERNEL);
}

/* Whether the processor has the filters that it needs. Any context. */
bool lbr_supports(const struct lbr_program *program);

/* The least depth, of those to choose from, with so many entries; else the deepest. Any context. */
unsigned lbr_depth_for(unsigned entries);

/* Starts, as the last act. */
void lbr_start(struct debugctl *debugctl, const struct lbr_program *program);

/* Stops, as the first act; the entries stay. Then: leaves no filter to the next user. */
void lbr_stop(struct debugctl *debugctl);
void lbr_unfilter(void);

/* Whether it is started and not stopped. NMI too. */
bool lbr_runs(const struct debugctl *debugctl);

/* For each #DB, which has stopped it (17.4.2; 18.1.4 of 2022): it goes on if it was started. */
void lbr_after_debug(const struct debugctl *debugctl);

/* Whether a PMI stopped it, in versions 2 and 3; later: IA32_PERF_GLOBAL_STATUS. NMI too. */
bool lbr_is_frozen(void);

/* The registers of the stack. All below: while it is stopped. */
struct lbr_registers {
	uint64_t from[LBR_MOST], to[LBR_MOST], info[LBR_MOST], top;
};
void lbr_save(struct lbr_registers *saved);
void lbr_restore(const struct lbr_registers *saved);

/*
 * Empties the stack, which has `depth` entries then: what lbr_depth_for() returned. Restoring it
 * gives it all.
 */
void lbr_clear(unsigned depth);

/*
 * Entries of `depth`, the newest first, up to one that lbr_clear() left: returns how many. pid_cpu
 * is 0. `from` is LBR_FROM_UNKNOWN where a filter by level kept the source (18.1.2 of 2022): a
 * branch from the level that was left out to the other.
 */
#define LBR_FROM_UNKNOWN (~0ull)
unsigned lbr_read(unsigned depth, struct ptrace_lbr_branch branches[LBR_MOST]);

/* An entry from its words, of MSRs or of a PEBS record; `info` 0: the format has none. Any context.
 */
struct ptrace_lbr_branch lbr_decode(uint64_t from, uint64_t to, uint64_t info);

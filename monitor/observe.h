/* SPDX-License-Identifier: MIT */
/*
 * The interpreter's reports, in the order of events. The interpreter knows nothing of
 * what becomes of it: trace.c hands each observation to those that watch, which vcpu->observed
 * names. All but saw_event(), saw_jump() and saw_exit() are called only while it names one. Linear
 * addresses throughout.
 *
 * An instruction that the interpreter leaves to the processor (INTERP_NATIVE_STEP) does not branch;
 * that it is complete is reported by svm/run_traced.c and complete_instruction().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct insn;
struct vcpu;

/*
 * The trace units, in the order of their rows and bits. Of NAME, NAME/state.h has struct
 * NAME_state, NAME/rules.h struct NAME_behaviour and the row, NAME_unit.
 */
#define EACH_UNIT(of)	  of(ds) of(pebs) of(pmu) of(pt) of(lbr)
#define UNIT_NUMBER(name) UNIT_##name,
enum { EACH_UNIT(UNIT_NUMBER) UNITS };

/* Bits of vcpu->observed: those of the units first. */
enum observer {
	OBSERVER_DS = 1 << UNIT_ds,	/* TR and BTS are set: monitor/ds */
	OBSERVER_PEBS = 1 << UNIT_pebs, /* counters of memory accesses: monitor/pebs */
	OBSERVER_PMU = 1 << UNIT_pmu,	/* counters of instructions or branches, LBR: monitor/pmu */
	OBSERVER_FLOW = 1 << UNIT_pt,	/* the unit that follows each instruction is on */
	OBSERVERS_OF_UNITS = (1 << UNITS) - 1,
	OBSERVER_LOCKSTEP = 1 << 8, /* interpreter against processor: monitor/interp/lockstep.c */
	OBSERVER_NONE = 1 << 9,	    /* nobody watches: the guest is interpreted all the same */
	OBSERVER_STACK = 1 << 10,   /* stack=on, from the first record on: trace.c */
};

/* The units that take an instruction; that take an event, and those of them that do so whether they
   watch or not; that take MOV to CR3: struct unit. */
#define UNITS_OF_RETIRED	 (OBSERVERS_OF_UNITS & ~(OBSERVER_DS | OBSERVER_PEBS))
#define UNITS_OF_EVENTS		 (OBSERVERS_OF_UNITS & ~OBSERVER_PEBS)
#define OBSERVERS_OF_EVERY_EVENT (OBSERVER_DS | OBSERVER_PMU)
#define UNITS_OF_CR3		 (OBSERVER_DS | OBSERVER_FLOW)

/* The observers that need one instruction at a time, and saw_retired() after each. */
#define OBSERVERS_OF_INSTRUCTIONS (OBSERVER_LOCKSTEP | UNITS_OF_RETIRED | OBSERVER_STACK)

/* The observers that saw_not_taken() is called for. */
#define OBSERVERS_OF_NOT_TAKEN (OBSERVER_LOCKSTEP | OBSERVER_FLOW)

enum cause {
	CAUSE_INSTRUCTION,
	CAUSE_INTERRUPT,
	CAUSE_NMI,
	CAUSE_EXCEPTION,
	CAUSE_SOFTWARE_INTERRUPT,
};

/* A taken branch, or an event that was delivered: as the SDM defines the addresses for the record
   (Vol 3, 17.4.8). The CPLs are those before and after. */
struct branch {
	uint64_t from, to;
	unsigned from_cpl, to_cpl;
	enum cause cause;
	/* Of all but CAUSE_INSTRUCTION: */
	uint8_t vector;
	uint64_t return_rip; /* what the handler's frame says */
};

/* Kinds of instructions: bits of retired.kind. */
enum retired_kind {
	RETIRED = 1 << 0, /* always set */
	RETIRED_BRANCH = 1 << 1,
	RETIRED_CONDITIONAL = 1 << 2, /* Jcc, LOOP, LOOPcc, JRCXZ */
	RETIRED_CALL = 1 << 3,	      /* near */
	RETIRED_RETURN = 1 << 4,      /* near */
	RETIRED_INDIRECT = 1 << 5,    /* near JMP or CALL through a register or memory */
	RETIRED_FAR = 1 << 6,	      /* every other: far, INT n, SYSCALL, IRET */
	RETIRED_TAKEN = 1 << 7,
	RETIRED_LOAD = 1 << 8, /* it read, wrote memory: while OBSERVER_PEBS is set */
	RETIRED_STORE = 1 << 9,
	RETIRED_MISPREDICTED = 1 << 10, /* monitor/pmu adds it */
};

/* An instruction that is complete; the guest's state is that after it. */
struct retired {
	uint64_t from;	      /* where it is, linear */
	uint64_t to;	      /* the next one */
	uint64_t rip;	      /* where it is, in its code segment */
	uint64_t load, store; /* the linear addresses that it accessed last */
	unsigned from_cpl, to_cpl;
	unsigned kind;	 /* enum retired_kind */
	unsigned length; /* bytes; 0 where the processor executed it */
};

/* Sets of CPLs, one bit each. */
enum { LEVEL_OS = 1 << 0, LEVELS_USER = 7 << 1, EVERY_LEVEL = LEVEL_OS | LEVELS_USER };

/*
 * The CPLs, one bit each, whose code has to be interpreted: what happens at another one changes
 * nothing for those that watch, a branch to or from one of these apart. 0: nobody watches.
 */
unsigned observed_levels(const struct vcpu *vcpu);

/* A branch instruction was taken; the guest's state is that at `to`. */
void saw_branch(struct vcpu *vcpu, uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl);
/*
 * The near branch `i` of 64-bit mode was taken, to `to`: the last act of its handler, which is
 * always called, whether anybody watches or not. Goes on there by go_on() or jump_slowly();
 * vcpu->rip is not set yet. One function for both, since on QEMU's translator a call and its return
 * cost as much as six accesses to memory.
 */
void saw_jump(struct vcpu *vcpu, const struct insn *i, uint64_t to);
/* The conditional branch `i` was not: Jcc, LOOP, LOOPcc, JRCXZ. Goes on after it by next() or
   not_taken_slowly(). */
void saw_not_taken(struct vcpu *vcpu, const struct insn *i);
/* An interrupt or exception was delivered to its handler. Always called: #DB changes IA32_DEBUGCTL
   whether anybody watches or not. */
void saw_event(struct vcpu *vcpu, const struct branch *event);
/* Whether saw_retired() may be called for branches alone: asked between two instructions, and after
   each report. */
bool follows_branches(struct vcpu *vcpu);
/* An instruction is complete, what it reports aside from this was reported before. Not called for
   one that faults, or that is to go on with its next iteration. */
void saw_retired(struct vcpu *vcpu, const struct retired *retired);
/* MOV to CR3: vcpu->cr3 is the new value. */
void saw_cr3(struct vcpu *vcpu);
/* The size of code has changed: to 64, 32 or 16 bits (CS.L with EFER.LMA, CS.D). */
void saw_mode(struct vcpu *vcpu, unsigned bits);
/* HLT. */
void saw_halt(struct vcpu *vcpu);
/* An instruction at which a hypervisor takes over. Not of the interpreter: svm/ reports it, traced
   or not. */
void saw_exit(struct vcpu *vcpu);

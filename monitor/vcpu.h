/* SPDX-License-Identifier: MIT */
/* The architectural state of one guest processor while the monitor holds it (not the VMCB). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "monitor/ds/state.h"
#include "monitor/lbr/state.h"
#include "monitor/observe.h"
#include "monitor/pebs/state.h"
#include "monitor/pmu/state.h"
#include "monitor/pt/state.h"
#include "monitor/x86.h"

struct silicon;
struct tlb;

/*
 * Of what each branch of a traced guest runs through: linker.ld keeps it in one page, since QEMU's
 * translator follows a direct jump without a look-up only within a page.
 */
#define HOT __attribute__((section(".text.hot")))

/* General registers in their encoding order. */
enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

/* Segment registers in their encoding order. */
enum { ES, CS, SS, DS, FS, GS, SEGMENTS };

/* attributes as a VMCB packs them: type 3:0, S 4, DPL 6:5, P 7, AVL 8, L 9, D/B 10, G 11. */
struct segment {
	uint16_t selector;
	uint16_t attributes;
	uint32_t limit;
	uint64_t base;
};

struct descriptor_table {
	uint16_t limit;
	uint64_t base;
};

/* A branch that was taken, as stack=on tells of it: tools/view/tests/test_shadow.c reads them. */
struct told {
	uint64_t rsp;	    /* after it */
	uint32_t from, to;  /* the low halves */
	uint32_t processor; /* of each another */
	uint16_t kind;	    /* enum retired_kind; 0: an interrupt or exception */
	uint8_t cpl;	    /* before it; after it in bits 4 and 5 */
	uint8_t recorded;
};

/* Branches and calls that stack=on has not printed yet. */
#define ACCOUNT_CALLS 32
struct account {
	unsigned unrecorded; /* branches in a row */
	unsigned calls;	     /* unrecorded, and those that they are in */
	struct told call[ACCOUNT_CALLS];
};

/* Interpreter state that the fast paths read, here so that they need only `vcpu`. */
struct hot {
	struct tlb *tlb;       /* that of the current privilege */
	uint64_t generation;   /* in the low 12 bits of each valid tag; never 0 */
	uint64_t watched_page; /* host page number of the code that runs: a store there ends it */
	uint64_t validity;     /* of blocks: changes with page tables, privilege, mode and CS */
	int64_t budget;	       /* instructions to execute, less one: below 0 it is used up */
	uint8_t mode;	       /* enum mode */
	bool follows;	       /* blocks run whole: of each branch a unit learns */
	bool attention;	       /* look for more than the next block once this one has ended */
	bool branched;	       /* a branch was taken: known of a single instruction */
	uint64_t none;	       /* always 0: what is read of a register that is not there */
};

struct vcpu {
	uint64_t gpr[16];
	uint64_t rip, rflags;
	struct hot hot;
	struct interp *interp; /* the interpreter's caches: interp_init() */
	struct segment segment[SEGMENTS];
	struct segment ldtr, tr;
	struct descriptor_table gdtr, idtr;
	uint64_t cr0, cr2, cr3, cr4;
	uint64_t efer; /* as the guest sees it: never with SVME */
	uint64_t dr6, dr7;
	uint64_t dr[4]; /* DR0 to DR3 as the processor holds them: to be read before interp_run() */
	uint64_t star, lstar, cstar, sfmask, kernel_gs_base;
	/* IA32_XSS, and its bits that there are: the monitor has XSAVES and XRSTORS then. 0: the
	   processor underneath may have its own. */
	uint64_t xss, xss_supported;
	uint8_t cpl;

	/* Ring 0 may run natively while ring 3 alone is observed: the platform notices the return
	   to ring 3. */
	bool native_ring_0;
	bool interrupt_shadow; /* the next instruction runs before any interrupt (STI, MOV SS) */
	bool nmi_blocked;      /* from delivery of an NMI to the guest's next IRET */
	bool nmi_pending;
	bool halted;
	bool shut_down; /* triple fault */

	/* Set where an event becomes deliverable (a PMI, say): the interpreter returns before
	   the next instruction. Its caller clears it. */
	bool attention;

	uint64_t translations; /* counts the calls of interp_forget() */
	unsigned cpuids;       /* counts CPUID */

	uint64_t debugctl;   /* IA32_DEBUGCTL: written by ds_write_msr(), read by all */
	uint64_t taken_away; /* by IA32_MISC_ENABLE: MISC_ENABLE_LIMIT_CPUID, MISC_ENABLE_XD_DISABLE
			      */
	unsigned observed;   /* enum observer; 0: what the interpreter sees concerns nobody */
	struct account account;
	const struct silicon *silicon;
	bool branches_suspended; /* LBR and BTS do nothing: SDM Vol 3, 36.3.1.2 */
#define UNIT_STATE(name) struct name##_state name;
	EACH_UNIT(UNIT_STATE)
};

/* A delivered #DB clears LBR and BTF and leaves TR as it is: SDM Vol 3, 17.4.2 and 17.4.3. So it
   does IA32_LBR_CTL.LBREn. */
static inline void trace_debug_exception(struct vcpu *vcpu)
{
	vcpu->lbr.control &= ~(uint64_t)LBR_EN;
	vcpu->debugctl &= ~(DEBUGCTL_LBR | DEBUGCTL_BTF);
}

/* 64-bit mode: outside IA-32e mode CS.L means nothing (SDM Vol 3, 5.2.1). */
static inline bool vcpu_in_64_bit_mode(const struct vcpu *vcpu)
{
	return vcpu->efer & EFER_LMA && vcpu->segment[CS].attributes & SEGMENT_L;
}

/* Of an offset in the code segment: modulo 2^32, or without a base: SDM Vol 3, 3.4.2.1. */
static inline uint64_t vcpu_code_linear(const struct vcpu *vcpu, uint64_t rip)
{
	return vcpu_in_64_bit_mode(vcpu) ? rip : (uint32_t)(vcpu->segment[CS].base + rip);
}

/* The linear address that RIP is relative to. */
static inline uint64_t vcpu_code_base(const struct vcpu *vcpu)
{
	return vcpu_in_64_bit_mode(vcpu) ? 0 : vcpu->segment[CS].base;
}

/* SPDX-License-Identifier: MIT */
/* The interpreter's state of one virtual processor beside the architectural one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/interp/decode.h"
#include "monitor/interp/interp.h"

enum { PAGE = 4096 };

/* One page that may be accessed: in the way, and by the privilege, of the table it is in. */
struct translation {
	uint64_t tag;	 /* linear page | generation */
	uintptr_t delta; /* host address - linear address */
};

/* A page of code: valid while `validity` is that of the interpreter. */
struct code_page {
	uint64_t validity, linear;
	const uint8_t *host;
};
enum { CODE_PAGES = 32 };

/* One page in all: an emulated host remembers few translations. */
enum { TRANSLATIONS = 128 };
struct tlb {
	struct translation read[TRANSLATIONS], write[TRANSLATIONS];
} __attribute__((aligned(PAGE)));
_Static_assert(sizeof(struct tlb) == PAGE, "both tables in one page");

/* Whose accesses they are. */
enum privilege {
	PRIVILEGE_SUPERVISOR, /* SMAP in force */
	PRIVILEGE_OVERRIDE,   /* supervisor with RFLAGS.AC set: SMAP suspended */
	PRIVILEGE_USER,
	PRIVILEGE_ALIGNED, /* user with alignment checking: its table stays empty, so that every
			      access takes the long way */
	PRIVILEGES,
};

/*
 * A straight run of decoded code, in one page; an instruction that straddles two is a separate
 * block. The guest's bytes are compared with those that were decoded each time it is entered. Two
 * words of eight bytes, which overlap, hold the first and the last of 16 at most; a longer block
 * also compares what is between them.
 */
struct block {
	uint64_t rip;
	uint64_t validity;	    /* what hot.validity was when the pages were last translated */
	const uint8_t *word, *end;  /* the first word and the last, in the host's view */
	uint64_t first, last, mask; /* what the words held; the bytes of them that count */
	const uint8_t *code[2];	    /* the guest's bytes, in the host's view */
	uint32_t bytes[2];	    /* those in the first and in the second page */
	const uint8_t *copy;	    /* those that were decoded */
	uint32_t count;
	uint32_t mode;
	struct insn insn[];
};

enum { BLOCKS = 2048, BLOCK_ARENA = 640 << 10, BOUNCE = PAGE, THUNK_BYTES = 32 };

/* A state component of CPUID leaf 0DH: its place in the standard form, its size; whether it is
   aligned in the compacted one. */
enum { STATE_COMPONENTS = 63 };
struct state_component {
	uint16_t offset, bytes;
	bool aligned;
};

struct interp {
	uint64_t epoch, code_epoch;
	struct code_page code_pages[CODE_PAGES];
	uint64_t code_base;	   /* of CS; 0 in 64-bit mode */
	uint64_t code_mask;	   /* of linear addresses */
	bool poll;		   /* the caller should look for interrupts */
	bool mov_ss;		   /* the shadow is that of MOV SS: it holds off #DB as well */
	bool trap;		   /* TF was set when the instruction began */
	bool single;		   /* one instruction at a time */
	bool breakpoints;	   /* DR7 enables some */
	uint8_t hits;		   /* breakpoints on what was accessed, as in DR6 */
	bool one;		   /* the caller asked for one instruction */
	bool watching;		   /* OBSERVER_PEBS: each access takes the long way */
	bool refused;		   /* INT n met a fault instead of its handler */
	struct retired began;	   /* of a single instruction: where it is */
	uint8_t privilege;	   /* of explicit accesses */
	struct lockstep *lockstep; /* NULL: nothing is compared */

	/* How a handler is left in the middle. */
	void *escape[5];
	struct fault fault;
	bool native; /* no fault: the processor is to execute the instruction */

	/* A write that straddles two pages, or that the platform takes, is made here first. */
	uint8_t *write_to[2];
	uint64_t platform_takes; /* the physical address of the last write, if it does; else 0 */
	uint32_t write_first;	 /* bytes in the first page */
	uint32_t write_bytes;
	uint64_t code_page; /* what watched_page was when it began */

	/* What the guest's processor has. */
	uint64_t physical_reserved; /* bits of a physical address that must be 0 */
	uint64_t cr4_allowed;
	bool pages_1g;
	bool sse4;		     /* SSSE3, SSE4.1 and SSE4.2 */
	bool sse_masked, x87_masked; /* no unmasked exception can come out of a thunk */

	uint8_t *thunks; /* writable view */
	const uint8_t *thunks_executable;
	size_t thunk_bytes, thunks_used;

	struct state_component component[STATE_COMPONENTS]; /* where XSAVES is interpreted */

	size_t arena_used;
	struct block *blocks[2][BLOCKS]; /* the second: blocks of one instruction */
	uint8_t read_bounce[BOUNCE] __attribute__((aligned(64)));
	uint8_t state[PAGE] __attribute__((aligned(64))); /* for XSAVE and XRSTOR */
	uint8_t write_bounce[PAGE] __attribute__((aligned(PAGE)));
	struct tlb tlbs[PRIVILEGES];
	uint8_t arena[BLOCK_ARENA] __attribute__((aligned(64)));
};

_Static_assert(sizeof(struct interp) <= INTERP_MEMORY, "INTERP_MEMORY holds one struct interp");

/* Leave the handler with a fault of the instruction `i`; nothing of it has been done. */
_Noreturn void raise_fault(struct vcpu *vcpu, const struct insn *i, const struct fault *fault);
_Noreturn void raise_vector(struct vcpu *vcpu, const struct insn *i, unsigned vector);
_Noreturn void raise_error(struct vcpu *vcpu, const struct insn *i, unsigned vector,
			   uint32_t error);
/* As raise_fault(), where no instruction could be fetched. */
_Noreturn void raise_at(struct vcpu *vcpu, uint64_t rip, const struct fault *fault);
/* Leave the handler so that the processor itself executes `i`. */
_Noreturn void native_step(struct vcpu *vcpu, const struct insn *i);

static inline void general_protection(struct vcpu *vcpu, const struct insn *i)
{
	raise_error(vcpu, i, VECTOR_GP, 0);
}

static inline void require_cpl0(struct vcpu *vcpu, const struct insn *i)
{
	if (vcpu->cpl)
		general_protection(vcpu, i);
}

/* The linear address of an offset in the present code segment. */
static inline uint64_t code_linear(const struct interp *interp, uint64_t offset)
{
	return (interp->code_base + offset) & interp->code_mask;
}

/* While vcpu->hot.follows: a far branch is complete, INT n too. */
void far_in_block(struct vcpu *vcpu, uint64_t from, unsigned from_cpl);

/* A branch of the instruction being executed, or of an event, was taken. */
static inline void branch_taken(struct vcpu *vcpu, uint64_t from, uint64_t to, unsigned from_cpl,
				unsigned to_cpl)
{
	vcpu->hot.branched = true;
	if (vcpu->observed)
		saw_branch(vcpu, from, to, from_cpl, to_cpl);
	if (vcpu->hot.follows)
		far_in_block(vcpu, from, from_cpl);
}

/* CPUID as the guest would see it; `value` by register: RAX, RCX, RDX, RBX. */
void interp_cpuid(struct vcpu *vcpu, uint32_t leaf, uint32_t subleaf, uint32_t value[4]);

/* xsave.c: after interp_cpuid() works. */
void xsave_init(struct vcpu *vcpu);

/* CPL, CS, RFLAGS.AC, CR0, CR4 or EFER may have changed: chooses the tables that accesses go
   through, and how code is decoded. */
void privilege_changed(struct vcpu *vcpu);

/* The block at RIP; raises what fetching it raises. One instruction long if interp.single. */
const struct block *find_block(struct vcpu *vcpu);

/* No block is known: to begin with, and where their memory is full. */
void forget_blocks(struct interp *interp);

/* Ends the handler of a WRMSR or XRSTORS, which may have turned on OBSERVERS_OF_INSTRUCTIONS: they
   see it as their first one. */
void leave_observed(struct vcpu *vcpu, const struct insn *i);

/* Executes `block`, and those that follow it as long as go_on() finds them. */
void enter_block(struct vcpu *vcpu, const struct block *block);

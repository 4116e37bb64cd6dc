/* SPDX-License-Identifier: MIT */
/*
 * The interpreter: executes a guest's code in software while its branches are traced.
 * Knows the instruction set; knows nothing of SVM, of the DS rules or of any guest.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct insn;
struct vcpu;

enum interp_stop {
	INTERP_BUDGET,	    /* that many instructions were executed, or the caller should look for
			       interrupts now (IF, TPR or the shadow changed) */
	INTERP_UNTRACED,    /* the guest turned its tracing off: it may run natively */
	INTERP_HALTED,	    /* HLT was executed: vcpu->halted, RIP after it */
	INTERP_NATIVE_STEP, /* the instruction at RIP must be executed by the processor itself */
	INTERP_MODE,	    /* virtual-8086 mode, LA57, protection keys or CET */
	INTERP_SHUTDOWN,    /* triple fault: vcpu->shut_down */
};

/*
 * Executes one instruction, traced or not, if `budget` is 1; else that many, or as many more as
 * stand in a straight run of code. Events are delivered in software on the way.
 */
enum interp_stop interp_run(struct vcpu *vcpu, unsigned budget);

/* True while the guest must not run natively: its branches are traced, or single-stepped. */
bool interp_needed(const struct vcpu *vcpu);

/* True while that is so at some CPL. A guest that runs natively nevertheless is in ring 0 then, and
   what leads to another CPL has to be interpreted. */
bool interp_awaited(const struct vcpu *vcpu);

/*
 * Gives `vcpu` its caches: INTERP_MEMORY bytes, page-aligned, permanently and for that virtual
 * processor alone. Once, before anything else here. Asks platform_cpuid() what the guest's
 * processor has.
 */
#define INTERP_MEMORY ((size_t)1 << 20)
void interp_init(struct vcpu *vcpu, void *memory);

/*
 * Places the executable copies of instructions that are run rather than interpreted (SSE, x87).
 * The same `bytes` (at least 64 KiB) seen through a writable and an executable mapping, which may
 * be one; of one virtual processor alone. They run with the guest's x87 and SSE state live in the
 * processor, and need CR0.EM = CR0.TS = 0, CR0.NE = 1 and CR4.OSFXSR = 1 in the host. Without an
 * area such instructions are left to INTERP_NATIVE_STEP.
 */
void interp_set_thunk_area(struct vcpu *vcpu, void *writable, const void *executable, size_t bytes);

/*
 * The guest's page tables may have changed unseen by the interpreter: to be called whenever
 * the guest has run natively. (Changed code is always noticed.)
 */
void interp_forget(struct vcpu *vcpu);

/* A fault of an instruction, of which nothing was done. */
struct fault {
	uint8_t vector;
	bool has_error;
	uint32_t error;
	uint64_t address; /* CR2, of a #PF */
};

/*
 * From now on each instruction that is interpreted is executed by the processor as well, from the
 * same state, and the outcomes are compared: a difference ends the run by platform_stop(). The
 * platform must then answer NULL to platform_guest_page() for all that is not memory. `deviations`
 * of the processor (enum deviation) are corrected before. `memory`: LOCKSTEP_MEMORY bytes, for that
 * virtual processor alone.
 */
#define LOCKSTEP_MEMORY ((size_t)14 << 10)
void lockstep_init(struct vcpu *vcpu, void *memory, unsigned deviations);

/* Instructions compared since the start, by all virtual processors. */
uint64_t lockstep_compared(void);

/* Events, delivered through the guest's IDT in software. */
enum event_kind {
	EVENT_INTERRUPT, /* external, or INTR already acknowledged */
	EVENT_NMI,
	EVENT_EXCEPTION,
	EVENT_SOFTWARE, /* INT n, INT3, INTO: DPL is checked, RIP goes on after the instruction */
};

struct event {
	enum event_kind kind;
	uint8_t vector;
	bool has_error;
	uint32_t error;
	uint64_t return_rip; /* what is pushed */
	uint64_t from;	     /* what the branch record shows as its origin */
};

/*
 * Delivers `event`, with the faults that the delivery itself raises up to #DF and shutdown.
 * Records the branch, tracks NMI blocking, ends a halt.
 */
void event_deliver(struct vcpu *vcpu, const struct event *event);

/*
 * Guest linear to guest physical by the guest's own tables, with the checks of `access`. False
 * leaves the #PF error code in *error; nothing is raised and CR2 is not touched. Without
 * ACCESS_USER it is an implicit supervisor access: SMAP applies whatever RFLAGS.AC says. The
 * tables are walked each time. Outside IA-32e mode `linear` has 32 bits: the others are ignored.
 */
enum access {
	ACCESS_READ = 0,
	ACCESS_WRITE = 1,
	ACCESS_EXECUTE = 2,
	ACCESS_USER = 4,
	ACCESS_OVERRIDE = 8,  /* SMAP is suspended */
	ACCESS_UNMARKED = 16, /* Accessed and Dirty of the page stay as they are */
	ACCESS_DIRTY = 32,    /* false unless the page is Dirty already */
};
bool guest_translate(struct vcpu *vcpu, uint64_t linear, unsigned access, uint64_t *physical,
		     uint32_t *error);

/*
 * RDMSR and WRMSR as the guest would see them: the MSRs that struct vcpu holds (EFER, STAR, LSTAR,
 * CSTAR, SFMASK, the FS, GS and kernel GS bases) are handled here, the rest by the platform.
 * False: #GP(0), nothing changed.
 */
bool guest_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool guest_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);

/* Bytes of an XSAVE area in compacted form with all that XCR0 and IA32_XSS name: CPUID.(0DH,1):EBX.
   Where vcpu->xss_supported is not 0. */
unsigned interp_xsave_bytes(const struct vcpu *vcpu);

/* The interpreter's surroundings provide these functions: the monitor's, or a host test's. */

/* The page of guest-physical memory that holds `physical`, as the host sees it, 4 KiB aligned.
   Accesses to it are made with the guest's own width, so that devices may stand there. NULL: an
   instruction that touches this page is left to INTERP_NATIVE_STEP. */
uint8_t *platform_guest_page(uint64_t physical);
/* Whether `physical` is memory of the guest: no device, no memory of its host. */
bool platform_is_memory(uint64_t physical);
/* Whether writes to this page are made by platform_write() instead, once the instruction is
   otherwise complete: `bytes` as the guest wrote them, which an instruction with REP may do in one
   go. */
bool platform_takes_writes(uint64_t physical);
void platform_write(struct vcpu *vcpu, uint64_t physical, const void *data, unsigned bytes);
void platform_cpuid(struct vcpu *vcpu); /* EAX, ECX in; EAX..EDX out */
bool platform_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value); /* false: #GP(0) */
bool platform_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);
/* State component `n`, one of vcpu->xss_supported, to and from `area`, as XSAVES at `rip` and
   XRSTORS have it. True if it is not in its initial configuration. False: #GP(0), nothing changed;
   `area` NULL: to the initial configuration. */
bool platform_save_state(struct vcpu *vcpu, unsigned n, uint64_t rip, void *area);
bool platform_load_state(struct vcpu *vcpu, unsigned n, const void *area);
/* INT `vector` in real-address mode. False: the guest's own handler has to be called. */
bool platform_bios(struct vcpu *vcpu, uint8_t vector);
uint64_t platform_read_cr8(struct vcpu *vcpu);
void platform_write_cr8(struct vcpu *vcpu, uint64_t value);
uint32_t platform_in(struct vcpu *vcpu, uint16_t port, unsigned bytes);
void platform_out(struct vcpu *vcpu, uint16_t port, unsigned bytes, uint32_t value);

/* For lockstep_init(): one instruction by the processor itself, which updates `vcpu`. */
enum native_outcome {
	NATIVE_DONE,
	NATIVE_FAULTED,	    /* *fault; nothing was delivered */
	NATIVE_INTERCEPTED, /* the platform would have to do it: nothing was done */
};
enum native_outcome platform_step(struct vcpu *vcpu, bool loads_tf, struct fault *fault);
_Noreturn void platform_stop(const char *why);

/*
 * To be called last after a branch to `rip`, with `left` instructions of its block not executed.
 * Executes the block at `rip`. If something else has to happen before, or the block has to be
 * looked for, it sets RIP and returns, and run() sees to it.
 */
void go_on(struct vcpu *vcpu, uint64_t rip, uint64_t left);

/* The long ways of saw_jump() and saw_not_taken(): `i` leads to `rip` in the code segment, in any
   mode; to the next instruction. */
void jump_slowly(struct vcpu *vcpu, const struct insn *i, uint64_t rip);
void not_taken_slowly(struct vcpu *vcpu, const struct insn *i);

/* SPDX-License-Identifier: MIT */
/*
 * The interpreter: executes a guest's 64-bit code in software while its branches are traced.
 * Knows the instruction set; knows nothing of SVM, of the DS rules or of any guest.
 */
#ifndef SPOOR_MONITOR_INTERP_H
#define SPOOR_MONITOR_INTERP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vcpu;

enum interp_stop {
	INTERP_BUDGET,      /* that many instructions were executed, or the caller should look for
			       interrupts now (IF, TPR or the shadow changed) */
	INTERP_UNTRACED,    /* the guest turned its tracing off: it may run natively */
	INTERP_HALTED,      /* HLT was executed: vcpu->halted, RIP behind it */
	INTERP_NATIVE_STEP, /* the instruction at RIP must be executed by the processor itself */
	INTERP_MODE,        /* not 64-bit mode: nothing here can execute that */
	INTERP_SHUTDOWN,    /* triple fault: vcpu->shut_down */
};

/* Executes at most `budget` instructions. Events are delivered in software on the way. */
enum interp_stop interp_run(struct vcpu *vcpu, unsigned budget);

/* The guest's page tables, or its code, may have changed behind the interpreter's back. */
void interp_forget(void);

/*
 * Places the executable copies of instructions that are run rather than interpreted (SSE, LOCK).
 * The same `bytes` (at least 64 KiB) seen through a writable and an executable mapping, which may
 * be one.
 */
void interp_set_thunk_area(void *writable, const void *executable, size_t bytes);

/* Events, delivered through the guest's IDT in software. */
enum event_kind {
	EVENT_INTERRUPT, /* external, or INTR already acknowledged */
	EVENT_NMI,
	EVENT_EXCEPTION,
	EVENT_SOFTWARE, /* INT n, INT3, INTO: DPL is checked, RIP goes on behind the instruction */
};

struct event {
	enum event_kind kind;
	uint8_t vector;
	bool has_error;
	uint32_t error;
	uint64_t return_rip; /* what is pushed */
	uint64_t from;       /* what the branch record shows as its origin */
};

/*
 * Delivers `event`, with the faults that the delivery itself raises up to #DF and shutdown.
 * Records the branch, tracks NMI blocking, ends a halt.
 */
void event_deliver(struct vcpu *vcpu, const struct event *event);

/*
 * Guest linear to guest physical by the guest's own tables, with the checks of `access`. False
 * leaves the #PF error code in *error; nothing is raised and CR2 is not touched.
 */
enum access { ACCESS_READ = 0, ACCESS_WRITE = 1, ACCESS_EXECUTE = 2, ACCESS_USER = 4 };
bool guest_translate(struct vcpu *vcpu, uint64_t linear, unsigned access, uint64_t *physical,
		     uint32_t *error);

/* What the interpreter needs from around it; the monitor has one, a host test another. */

/* The page of guest-physical memory that holds `physical`, as the host sees it; never NULL.
   Accesses to it are made with the guest's own width, so that devices may stand there. */
uint8_t *platform_guest_page(uint64_t physical);
void platform_cpuid(struct vcpu *vcpu); /* EAX, ECX in; EAX..EDX out */
bool platform_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value); /* false: #GP(0) */
bool platform_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);
uint64_t platform_read_cr8(struct vcpu *vcpu);
void platform_write_cr8(struct vcpu *vcpu, uint64_t value);
uint32_t platform_in(struct vcpu *vcpu, uint16_t port, unsigned bytes);
void platform_out(struct vcpu *vcpu, uint16_t port, unsigned bytes, uint32_t value);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Exceptions, interrupts and NMIs: what the entry code leaves on the stack and who handles it.
 * Vectors 0 to 31 are the processor's; 32 and up are given out here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	VECTOR_DE = 0,
	VECTOR_DB = 1,
	VECTOR_NMI = 2,
	VECTOR_BP = 3,
	VECTOR_UD = 6,
	VECTOR_DF = 8,
	VECTOR_SS = 12,
	VECTOR_GP = 13,
	VECTOR_PF = 14,
	VECTOR_MF = 16,
	VECTOR_AC = 17,
	VECTOR_MC = 18,
	VECTOR_XM = 19,

	VECTOR_TIMER = 0x20,
	VECTOR_TRACE_WORK = 0x21, /* self-IPI: a trace buffer waits to be handed over */
	VECTOR_PMI = 0x22,	  /* LVTPC where it delivers a fixed vector */
	VECTOR_CALL = 0x23,	  /* smp_call() */
	VECTOR_KICK = 0x24,	  /* look at the run queue */
	VECTOR_TEST = 0x30,	  /* the first of 16 that the kernel leaves to its payload */
	VECTOR_INT80 = 0x80,	  /* the system calls of 32-bit code */

	/* Not in the IDT: how a SYSCALL shows in a trap frame, and one in compatibility mode. */
	VECTOR_SYSCALL = 0x100,
	VECTOR_SYSCALL_32 = 0x101,
};

/* Grows down from the stack that the processor chose; the entry code fills it (entry.asm). */
struct trap_frame {
	uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
	uint64_t vector, error;
	uint64_t rip, cs, rflags, rsp, ss;
};
#define FLAG_TF 0x100u /* of rflags */
_Static_assert(sizeof(struct trap_frame) == 22 * 8, "entry.asm counts on it");
_Static_assert(offsetof(struct trap_frame, vector) == 15 * 8, "entry.asm counts on it");

/* An exception that the exception table turned into a jump. */
struct caught {
	uint64_t vector, error, cr2;
};

/* True for a frame that interrupted ring 3. */
static inline bool trap_from_user(const struct trap_frame *frame)
{
	return (frame->cs & 3) != 0;
}

/* Builds the IDT and loads it on the boot CPU, after its task-state segment. */
void trap_init(void);

/* Loads the IDT on another CPU. */
void trap_load(void);

/*
 * Calls `handler` for interrupts of `vector` (32 or more), IF = 0, once the CPU's state is saved;
 * NULL takes it off. The handler writes EOI itself.
 */
typedef void (*interrupt_handler)(struct trap_frame *frame);
void interrupt_set_handler(unsigned vector, interrupt_handler handler);

/*
 * Interrupts that came without a handler so far, on all CPUs: firmware or a kernel before this one
 * left them pending, or a device is not what its driver thinks. They are ended and counted.
 * `newest` is set to the vector of the last one, if there was any. Any context.
 */
uint64_t interrupt_unknown_count(unsigned *newest);

/*
 * Lets in what a kernel or firmware before this one left pending in this CPU's local APIC. Boot,
 * with IF = 0, once the APIC is taken over and before any handler but the spurious one is set.
 */
void interrupt_take_pending(void);

/*
 * Adds a handler of NMIs, or takes it off. Each is asked; true: the NMI was its own. It must not
 * lock, allocate, print, touch user memory or fault. An NMI that nobody owns is counted.
 */
typedef bool (*nmi_handler)(struct trap_frame *frame);
void nmi_add_handler(nmi_handler handler);
void nmi_remove_handler(nmi_handler handler);
uint64_t nmi_unknown_count(void);

/*
 * Asked about an exception in the kernel that no exception table entry expects, with IF = 0 on the
 * stack it came on: true, `frame` now says where to go on; false, the kernel panics. NULL: none.
 */
extern bool (*exception_unexpected)(struct trap_frame *frame);

/* The newest exception that was caught for this task. Any task. */
struct caught trap_caught(void);

/* The linear address of the first instruction that the IDT names for `vector`. */
uint64_t trap_entry(unsigned vector);

/*
 * Inside an asm statement: an exception whose saved RIP is `at` continues at `go_on`, and
 * trap_caught() says what it was. For INT3 and the like the saved RIP is the address after the
 * instruction.
 */
#define EXCEPTION_TABLE(at, go_on)                                                                 \
	".pushsection .exception_table, \"a\"\n\t.quad " at ", " go_on "\n\t.popsection\n\t"

/* Called by the entry code (entry.asm) only. */
void exception_dispatch(struct trap_frame *frame);
void interrupt_dispatch(struct trap_frame *frame);
void nmi_dispatch(struct trap_frame *frame);

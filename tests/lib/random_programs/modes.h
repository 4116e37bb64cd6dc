/* SPDX-License-Identifier: MIT */
/*
 * Random programs that change privilege level and mode: 64-bit code and code of compatibility mode
 * in rings 0 and 3, one after the other. They go from one to the next by far JMP, CALL and RET,
 * IRET, INT n, SYSCALL and SYSRET, SYSENTER and SYSEXIT. In between they loop, call, raise
 * exceptions, write over their own jumps, and send themselves an NMI. They touch no memory but
 * their stacks and code, and end. The same seed makes the same program. Task context.
 *
 * Both rings have a window below 2 GiB with their code, and one more address of it where it is
 * data. Handlers and the way into the program are the test's own, in the kernel's code. So the low
 * half of an address is enough: modes_address() has the rest.
 */
#pragma once

#include "kernel/trap/trap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum modes_kind {
	MODES_JCC,
	MODES_JMP,
	MODES_JMP_INDIRECT,
	MODES_CALL,
	MODES_CALL_INDIRECT,
	MODES_RET,
	MODES_FAR,
	MODES_SOFTWARE, /* INT n, INT3 */
	MODES_FAULT,
};

struct modes_branch {
	uint32_t from, next;
	uint32_t to; /* of a direct branch, or of an event: its handler */
	enum modes_kind kind;
	unsigned site; /* not 0: a JMP that the program writes over, one of struct modes_program */
	bool narrow;   /* it is in code of compatibility mode */
};

struct modes_window {
	uint8_t *code; /* where a test may write it */
	uint32_t at;   /* where it runs */
	size_t size, count;
	struct modes_branch *branches; /* in the order of `from` */
};

/* A JMP that leads to one of two places in turn: the program changes `*displacement` before it. */
struct modes_site {
	uint8_t *displacement;
	unsigned passes; /* how often it has run: the reader of a trace counts them */
};

enum { MODES_SITES = 16, MODES_PAGES = 8 };

struct modes_program {
	struct modes_window window[2]; /* of ring 0, of ring 3 */
	uint8_t *stack[2], *interrupt_stack;
	uint64_t random;
	unsigned mode;	    /* of the code that is made */
	uint32_t function;  /* to be called in that mode */
	bool fast;	    /* with SYSENTER and SYSEXIT */
	unsigned transfers; /* changes of mode, privilege level, or both */
	struct modes_site sites[MODES_SITES];
	unsigned site_count;
	uint64_t kept[6], flags;
	uint64_t kept_stack, kept_cr4;
};

/* Memory and mappings, until modes_close(). */
void modes_open(struct modes_program *program);
void modes_close(struct modes_program *program);

/* A program of `parts`, each with a loop of about a hundred branches. With `fast` it uses SYSENTER.
 */
void modes_generate(struct modes_program *program, uint64_t seed, unsigned parts, bool fast);

/* What modes_enter() gets: EAX, EDX, EBX, ESI, EDI, the entry; RFLAGS and IA32_DEBUGCTL. */
struct modes_start {
	uint32_t registers[5], entry;
	uint64_t flags, debugctl;
};

/* The beginning of the program of `seed`: its code as it is at first, and its registers. */
struct modes_start modes_begin(struct modes_program *program, uint64_t seed, uint64_t debugctl);

/*
 * The program's GDT, IDT, stack of interrupts and MSRs on this CPU, with IF = 0; and the CPU's own
 * again. Between own_idt_copy(), which modes_prepare() does, and modes_load() a test may set more
 * gates. Preemption off.
 */
void modes_prepare(void);
void modes_load(struct modes_program *program);
void modes_unload(struct modes_program *program);

/* Runs it: from modes_start to modes_exit, with `start->debugctl` until there. */
void modes_enter(const struct modes_start *start);

/* The first branch of it, the target of the last; the entry of NMIs and their IRETQ. */
extern const char modes_first[], modes_exit[], modes_nmi[], modes_nmi_iret[];
/* The SYSCALL entry, and the code of all handlers, from modes_first on. */
extern const char modes_syscall[], modes_handlers_end[];

/* The whole of an address of which `low` is the low half. */
static inline uint64_t modes_address(uint32_t low)
{
	return (uint64_t)(int64_t)(int32_t)low;
}

/* True if the address is the program's: in a window, or in its handlers; in a window alone. */
bool modes_has(const struct modes_program *program, uint64_t address);
bool modes_is_code(const struct modes_program *program, uint64_t address);

/* The branch, INT n or instruction that faults at `address`; NULL: there is none. */
const struct modes_branch *modes_branch_at(const struct modes_program *program, uint64_t address);

/* The first branch of a window at or after `address`, which is in it, and no event; or NULL. */
const struct modes_branch *modes_branch_after(const struct modes_program *program,
					      uint64_t address);

/* Where a branch of the program leads, as it is after so many passes; of a direct one. */
uint64_t modes_target(const struct modes_program *program, const struct modes_branch *branch);

/* --- For modes.c, which makes the code, and modes_run.c, which runs it ------------------------ */

/* All in one table of pages. */
#define MODES_CODE	 0x5a010000u
#define MODES_USER	 0x5a020000u
#define MODES_WRITABLE	 0x20000u /* from a window to where its code is data */
#define MODES_STACK	 0x5a050000u
#define MODES_USER_STACK 0x5a051000u
#define MODES_STACK_TOP	 0xff0u
#define MODES_APIC	 0x5a052000u
#define MODES_NOWHERE	 0x5a053000u /* not mapped */

enum { MODES_BRANCHES = 2048 };

/* Vectors of INT n: the handler returns to where EBP says, or goes on there in ring 0. */
enum { MODES_CALLED = VECTOR_TEST, MODES_STAYING = VECTOR_TEST + 1 };

extern const char modes_resume[], modes_resume_error[], modes_gate[];

/* The first and second place of a JMP that the program writes over, from the next instruction on.
 */
enum { MODES_ONE_WAY = 2, MODES_OTHER_WAY = 4 };

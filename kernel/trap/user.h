/* SPDX-License-Identifier: MIT */
/* Ring 3: a task runs user code until something happens there that the kernel must decide. */
#pragma once

#include "kernel/trap/trap.h"

/*
 * The state of a task in ring 3 on the CPU besides its frame: the address space and the x87 and
 * SSE registers, switched with the task. No two tasks share one.
 */
struct user_context {
	uint8_t fpu[512] __attribute__((aligned(16))); /* SDM Vol 1, 10.5.1: the FXSAVE area */
	uint64_t root;				       /* what CR3 holds while the task runs */
	bool block_step; /* IA32_DEBUGCTL.BTF: TF traps after taken branches only */
};

/* The bits of RFLAGS that ring 3 may set (CF PF AF ZF SF TF DF OF AC ID), and those always set. */
#define USER_FLAGS_FREE	 0x240dd5u
#define USER_FLAGS_FIXED 0x202u

/* Registers as after reset of the FPU, all exceptions masked; `root` as given. */
void user_context_init(struct user_context *context, uint64_t root);

/* Copies the running task's x87 and SSE registers to another context. Task context. */
void user_context_copy_fpu(struct user_context *to);

/*
 * Gives the running task those of `from`: with bits of MXCSR that this processor does not have they
 * are 0. Task context.
 */
void user_context_use_fpu(struct user_context *from);

/* The running task gives its context up, and runs in the kernel's address space from here on. */
void user_context_drop(void);

/* Takes up `to`'s in the place of `from`'s; either may be NULL, not both. The scheduler; IF = 0. */
void user_switch(struct user_context *from, struct user_context *to);

/*
 * Goes to ring 3 with the registers of `frame` and returns when that code makes a SYSCALL
 * (frame->vector = VECTOR_SYSCALL) or raises an exception (its vector and error code); `frame`
 * then holds the user's registers, ready to go on. Interrupts are served on the way and do not
 * come back, unless sched_break_user() asked for it (frame->vector is then an interrupt's).
 * Selectors and the flags that matter to the kernel are set here: CS is that of 64-bit mode unless
 * the frame has USER_CODE_32. False, and nothing done, if RIP is not canonical, or of compatibility
 * mode and above 4 GiB. Goes back by SYSRET where a SYSCALL came, else by IRET. Task context.
 */
bool user_run(struct trap_frame *frame);

/* Assembly (entry.asm). */
extern const uint8_t trap_stubs[];
extern const uint8_t syscall_entry[], syscall_entry_32[];
void user_enter(const struct trap_frame *user, uint64_t *kernel_rsp, bool sysret);
_Noreturn void user_leave(uint64_t kernel_rsp);
void syscall_dispatch(struct trap_frame *frame);

/* An exception or interrupt from ring 3: back into user_run(). IF = 0; any of the CPU's stacks. */
_Noreturn void user_return(const struct trap_frame *frame);

/* SPDX-License-Identifier: MIT */
/* Ring 3: a task runs user code until something happens there that the kernel must decide. */
#ifndef SPOOR_KERNEL_TRAP_USER_H
#define SPOOR_KERNEL_TRAP_USER_H

#include "kernel/trap/trap.h"

/*
 * Goes to ring 3 with the registers of `frame` and comes back when that code makes a SYSCALL
 * (frame->vector = VECTOR_SYSCALL) or raises an exception (its vector and error code); `frame`
 * then holds the user's registers, ready to go on. Interrupts are served on the way and do not
 * come back. Selectors and the flags that matter to the kernel are set here; false, and nothing
 * done, if RIP is not canonical. Goes back by SYSRET where a SYSCALL came, else by IRET.
 * Task context.
 */
bool user_run(struct trap_frame *frame);

/* Assembly (entry.asm). */
extern const uint8_t trap_stubs[];
extern const uint8_t syscall_entry[];
void user_enter(const struct trap_frame *user, uint64_t *kernel_rsp, bool sysret);
_Noreturn void user_leave(uint64_t kernel_rsp);
void syscall_dispatch(struct trap_frame *frame);

/* An exception from ring 3: back into user_run(). */
_Noreturn void user_return(const struct trap_frame *frame);

#endif

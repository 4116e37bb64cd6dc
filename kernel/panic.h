/* SPDX-License-Identifier: MIT */
/* The end when the kernel itself is wrong: everything that helps to find out why, then a verdict.
 */
#ifndef SPOOR_KERNEL_PANIC_H
#define SPOOR_KERNEL_PANIC_H

#include <stdint.h>

struct trap_frame;

/* Any context, NMI included. Tracing is stopped on this CPU before anything is printed. */
_Noreturn void panic(const char *template, ...) __attribute__((format(printf, 1, 2)));

/* As panic(), for the state in `frame`; `what` NULL names the exception. */
_Noreturn void panic_trap(const struct trap_frame *frame, const char *what);

#define ASSERT(condition)                                                                          \
	do {                                                                                       \
		if (__builtin_expect(!(condition), 0))                                             \
			panic("%s:%d: %s does not hold", __FILE__, __LINE__, #condition);          \
	} while (0)

/* "#GP", or "exception" for a vector that has no such name. */
const char *exception_name(uint64_t vector);

/* Registers, backtrace and newest branches of the state in `frame`. Tracing is stopped. */
void print_trap(const struct trap_frame *frame);

/* The functions that led to `rip`, by the chain of frames from `rbp`. */
void print_backtrace(unsigned long rip, unsigned long rbp);

/*
 * The newest branches that this CPU's trace holds, symbolised; nothing where none is loaded. With
 * `frame` those on the way here from the event that made it are left out. Tracing is stopped.
 */
void print_last_branches(const struct trap_frame *frame);

#endif

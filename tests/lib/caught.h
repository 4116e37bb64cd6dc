/* SPDX-License-Identifier: MIT */
/* Code that may fault, run untraced or traced, and what came of it. */
#ifndef SPOOR_TESTS_LIB_CAUGHT_H
#define SPOOR_TESTS_LIB_CAUGHT_H

#include <stdbool.h>
#include <stdint.h>

/* The layout is known to caught.c's assembly. */
struct faulted {
	uint64_t vector; /* CAUGHT_NONE: the code came to its end */
	uint64_t error, cr2, rip;
	uint64_t rcx, rdi, rsi; /* then */
};
#define CAUGHT_NONE 256ul

/* Handlers for faults on this CPU, from open to close; preemption off. */
void caught_open(void);
void caught_close(void);

/*
 * Jumps to `code` with RDI, RSI and RCX as given, RFLAGS.AC = `ac`, IF = 0 and IA32_DEBUGCTL =
 * `debugctl`. It ends in JMP *RBX, and may change RAX, RDX, RSI, RDI and RCX.
 */
struct faulted caught_run(const void *code, uint64_t rdi, uint64_t rsi, uint64_t rcx, bool ac,
			  uint64_t debugctl);

/* True if both are the same; else says in a note what is not. */
bool caught_same(const struct faulted *a, const struct faulted *b);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What code can change of the processor's state, set before it runs and read after: general
 * registers, arithmetic flags and DF, XMM registers and MXCSR. With preemption off. While it is
 * open the caller has SSE: the kernel itself uses none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

#define FXSAVE_MXCSR 24 /* SDM Vol 1, table 10-2 */
#define FXSAVE_XMM   160

struct machine {
	uint64_t registers[16]; /* RSP is neither set nor read */
	uint64_t flags;
	uint64_t reserved;
	_Alignas(16) uint8_t fxsave[512];
};
_Static_assert(offsetof(struct machine, flags) == 128, "machine.c counts on it");
_Static_assert(offsetof(struct machine, fxsave) == 144, "machine.c counts on it");

/* Lets code use SSE, and undoes it. */
void machine_open(void);
void machine_close(void);

/* Random registers and XMM registers, flags clear, exceptions of SSE masked. */
void machine_randomize(struct machine *machine, uint64_t *random);

/*
 * Calls `code` on this stack with the state of `machine`, IF = 0 and IA32_DEBUGCTL = `debugctl`,
 * and puts the state that it returns with into `machine`. The call itself, from machine_call, and
 * the return, to machine_back, are the only branches between the WRMSRs besides the code's own.
 */
void machine_run(struct machine *machine, const void *code, uint64_t debugctl);
extern const char machine_call[], machine_back[];

/* Where machine_run() itself returns: its only other branch. */
extern const char machine_return[];

/* True if both are the same; else says in a note what is not. */
bool machine_same(const struct machine *a, const struct machine *b);

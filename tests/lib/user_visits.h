/* SPDX-License-Identifier: MIT */
/*
 * Visits to ring 3, each with a known number of branches there, for tests of the filter by CPL.
 * Between visits the kernel runs its own way to ring 3 and back, the same each time.
 */
#pragma once

#include "tests/lib/rig.h"

#define VISITS		4
#define VISIT_BRANCHES	19 /* in ring 3, all of them equal */
#define VISITS_SLOTS	4096
#define VISITS_BRANCHES (VISITS * VISIT_BRANCHES)

struct user_visits {
	uint64_t debugctl; /* IA32_DEBUGCTL after the last visit */
	size_t count;	   /* records stored, by the index */
	size_t user;	   /* within ring 3 */
	size_t kernel;	   /* within CPL 0 */
	size_t to_user, to_kernel;
	size_t wrong_from;   /* of these two: not from the instruction that makes the change */
	size_t wrong;	     /* of no such kind: an empty slot, say */
	uint64_t kernel_sum; /* changes with the addresses and the order of those within CPL 0 */
};

/*
 * Traces VISITS visits with IA32_DEBUGCTL = `debugctl`, interrupts held back by the task priority,
 * and sorts what was recorded; `rig` has VISITS_SLOTS slots. The user code stays mapped at
 * VISITS_AT until user_visits_close(). Fails the test if a visit went wrong.
 */
#define VISITS_AT	  0x00005a0000001000ul
#define VISITS_SYSCALL_AT (VISITS_AT + 9)
void user_visits_open(void);
void user_visits_close(void);

/*
 * One visit to code with a branch of each near kind, one of them over 100 bytes, that ends in
 * SYSCALL: at VISITS_AT, with a stack, until user_branches_close(). Interrupts wait meanwhile.
 */
#define USER_BRANCHES 8
void user_branches_open(void);
void user_branches_close(void);
void user_branches_run(uint64_t debugctl);

/* Branch `n` of them, in the order that they are taken. */
struct user_branch {
	uint64_t from, to;
};
struct user_branch user_branch(unsigned n);

/*
 * One visit to a loop of 64 turns with MSR = `value`, which is 0 after: a Jcc at USER_RANDOM_AT
 * goes by the bits of `directions`, then a JNZ. Between user_directions_open() and
 * user_visits_close().
 */
#define USER_RANDOM_AT (VISITS_AT + 3)
void user_directions_open(void);
void user_directions_run(uint32_t msr, uint64_t value, uint64_t directions);

/* One visit to a CALL of the next instruction, with MSR = `value`, which is 0 after. */
void user_call_of_next_run(uint32_t msr, uint64_t value);

/* The visits alone. */
void user_visits_run(void);
struct user_visits user_visits_trace(struct rig *rig, uint64_t debugctl);

/* SPDX-License-Identifier: MIT */
/*
 * A small program that is made from a seed: loops, calls, conditional and indirect branches, system
 * calls, instructions that fault. It does the same each time that it runs, whatever it is
 * interrupted by. Its registers say at any instruction how far it is: R15 is the number of basic
 * blocks that it has begun, the first instruction of each being the one that counts.
 */
#pragma once

#include "abi/ptrace.h"
#include "tests/user/lib/user.h"

#define GENERATED_BYTES 2048
#define GENERATED_COST	16000 /* the most that generate() takes */
#define GENERATED_EXIT	3     /* the code that it exits with */

/* Where it runs: INT3 in each byte, until expected_child() writes its code there. */
extern const char generated_area[GENERATED_BYTES];

/* The program that was made last. */
struct generated {
	uint8_t code[GENERATED_BYTES];
	uint8_t parts[GENERATED_BYTES]; /* PART_... of the instruction that begins there, or 0 */
	uint32_t length;
	uint32_t cost;	 /* instructions that it executes at most, faults and calls weighed */
	uint64_t number; /* what R14 is at its beginning */
};

enum {
	PART_INSTRUCTION = 1,
	PART_BLOCK = 2,	 /* the first of a basic block */
	PART_STRING = 4, /* repeats itself */
};

extern struct generated generated;

/*
 * Makes another program, which executes about `cost` instructions at most; a fault and a system
 * call count as many. It begins with an INT3 and ends by SYS_exit, or at another INT3, which is
 * the last instruction of its code. It has as many descendants as `forks` at most: each is made
 * once, and ends by SYS_exit.
 */
void generate(uint64_t seed, uint32_t cost, unsigned forks);

/* The instruction after the one at `rip`, in the order of addresses. */
uint64_t generated_next(uint64_t rip);

/* The part that begins at `rip`: PART_...; 0: none, it is outside. */
unsigned generated_part(uint64_t rip);

/* Whether a child with this RIP is past the INT3 at the end. */
bool generated_is_end(uint64_t rip);

/* Whether the program jumps to this address of the kernel's. */
bool generated_leaves(uint64_t address);

/* Moves a stopped child over the instruction that raised SIGSEGV, SIGILL or SIGFPE. */
void generated_skip_fault(struct ptrace_registers *registers);

/* SPDX-License-Identifier: MIT */
/*
 * Random programs whose outcome the manual fixes: every flag that an instruction leaves undefined
 * is defined again before anything can see it, divisions do not overflow, loops end, memory
 * accesses stay within the data. The same seed makes the same program, in the same build. Task
 * context.
 */
#pragma once

#include "tests/lib/random_programs/machine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One instruction with a ModRM byte as bytes: SDM Vol 2, chapter 2. Any context. */

#define LONGEST_INSTRUCTION 15

struct operand {
	bool memory, indexed;
	uint8_t base; /* the register, or that of the address: not RSP, RBP, R12, R13 then */
	uint8_t index, scale; /* not RSP; scale 0 to 3 */
	int32_t displacement;
};

struct instruction {
	bool lock;
	uint8_t prefix;	 /* 66H, F2H or F3H as part of the opcode; else 0 */
	uint16_t opcode; /* 0FH in the high byte where there is one */
	uint8_t size;	 /* of the operands: 1, 2, 4 or 8; 4 where the instruction has no choice */
	uint8_t reg;	 /* register, or opcode extension */
	struct operand rm;
	uint8_t immediate_size; /* bytes of it: 0, 1, 2 or 4 */
	uint32_t immediate;
};

/* Returns how many bytes were written to `to`, which has room for LONGEST_INSTRUCTION. */
size_t encode(uint8_t *to, const struct instruction *instruction);

#define PROGRAM_DATA_PAGES 4
#define PROGRAM_DATA_BYTES (PROGRAM_DATA_PAGES * 4096)
#define PROGRAM_FUNCTIONS  8

enum program_branch_kind { BRANCH_CONDITIONAL, BRANCH_JUMP, BRANCH_CALL, BRANCH_RETURN };

/* Offsets in the code; `to` of a return is not known beforehand. */
struct program_branch {
	uint32_t from, next, to;
	enum program_branch_kind kind;
};

struct program {
	uint8_t *code, *data;
	size_t code_pages, size, entry;
	struct program_branch *branches; /* in the order of `from` */
	size_t branch_count, most_branches;
	uint32_t functions[PROGRAM_FUNCTIONS];
	unsigned function_count, instructions;
	uint64_t random;
};

/* Takes memory for programs of up to `instructions`, until the test is over. */
void program_open(struct program *program, unsigned instructions);

/* A program of at least `instructions`, ready to be called with R15 = program->data. */
void program_generate(struct program *program, uint64_t seed, unsigned instructions);

/* The first branch at or after this offset in the code; NULL: there is none. */
const struct program_branch *program_branch_from(const struct program *program, uint32_t offset);

/* The data as `seed` has it. */
void program_fill_data(struct program *program, uint64_t seed);

/* For the files that generate: a number below `n`; one of the registers that programs may use. */
unsigned program_pick(struct program *program, unsigned n);
unsigned program_register(struct program *program);

/* A place in the data, aligned to `alignment`, at least 64 bytes before its end. */
struct operand program_memory(struct program *program, unsigned alignment);
struct operand program_operand(struct program *program); /* a register or a place in the data */

/* Appends instructions: one with a ModRM byte, one as bytes, a CMP that defines all flags. */
void program_add(struct program *program, struct instruction instruction);
void program_add_bytes(struct program *program, const void *bytes, size_t count);
void program_define_flags(struct program *program);

/* Append something random: arithmetic, other integer instructions, memory, SSE; any of them. */
void program_arithmetic(struct program *program);
void program_integer(struct program *program);
void program_memory_access(struct program *program);
void program_sse(struct program *program);
void program_straight(struct program *program);

/* Append a branch with what it leaps over, a loop, a call; and the functions to be called. */
void program_control(struct program *program);
void program_function(struct program *program);
void program_return(struct program *program);

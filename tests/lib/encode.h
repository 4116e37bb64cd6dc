/* SPDX-License-Identifier: MIT */
/* One instruction with a ModRM byte as bytes: SDM Vol 2, chapter 2. Any context. */
#ifndef SPOOR_TESTS_LIB_ENCODE_H
#define SPOOR_TESTS_LIB_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif

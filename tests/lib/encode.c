// SPDX-License-Identifier: MIT
#include "tests/lib/encode.h"

#include "lib/string.h"

#define OPERAND_SIZE 0x66
#define LOCK	     0xf0
#define RM_SIB	     4

static uint8_t *little_endian(uint8_t *at, uint32_t value, size_t bytes)
{
	memcpy(at, &value, bytes);
	return at + bytes;
}

static uint8_t *memory_operand(uint8_t *at, uint8_t reg, const struct operand *rm)
{
	bool near = rm->displacement >= -128 && rm->displacement < 128;
	unsigned mod = near ? 1 : 2, low = rm->indexed ? RM_SIB : rm->base & 7;

	*at++ = (uint8_t)(mod << 6 | (reg & 7) << 3 | low);
	if (rm->indexed)
		*at++ = (uint8_t)(rm->scale << 6 | (rm->index & 7) << 3 | (rm->base & 7));
	return little_endian(at, (uint32_t)rm->displacement, near ? 1 : 4);
}

/* A REX prefix always stands: byte registers are then the low ones of all sixteen. */
size_t encode(uint8_t *to, const struct instruction *i)
{
	uint8_t *at = to;
	unsigned index = i->rm.memory && i->rm.indexed ? i->rm.index : 0;

	if (i->lock)
		*at++ = LOCK;
	if (i->size == 2)
		*at++ = OPERAND_SIZE;
	if (i->prefix)
		*at++ = i->prefix;
	*at++ = (uint8_t)(0x40 | (i->size == 8) << 3 | (i->reg >> 3) << 2 | (index >> 3) << 1 |
			  i->rm.base >> 3);
	if (i->opcode >> 8)
		*at++ = (uint8_t)(i->opcode >> 8);
	*at++ = (uint8_t)i->opcode;
	if (i->rm.memory)
		at = memory_operand(at, i->reg, &i->rm);
	else
		*at++ = (uint8_t)(3 << 6 | (i->reg & 7) << 3 | (i->rm.base & 7));
	return (size_t)(little_endian(at, i->immediate, i->immediate_size) - to);
}

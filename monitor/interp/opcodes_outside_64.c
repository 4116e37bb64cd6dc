/* SPDX-License-Identifier: MIT */
/*
 * One-byte opcodes that mean something else outside 64-bit mode (SDM Vol 2, table A-2). Decimal
 * adjustments, PUSHA, POPA, BOUND and ARPL are left to the processor.
 */
#include <stddef.h>

#include "monitor/interp/handlers.h"

#define ONE(name)  SELECT_ONE, (handler *const[]){name}, NULL
#define SIZE(name) SELECT_SIZE, run_##name, NULL
#define KIND(name) SELECT_KIND, run_##name, NULL
#define PUSH                                                                                       \
	{                                                                                          \
		FORM_NONE, OPCODE_STACK, ONE(push_segment)                                         \
	}
#define POP                                                                                        \
	{                                                                                          \
		FORM_NONE, OPCODE_STACK | OPCODE_END, ONE(pop_segment)                             \
	}
#define LEFT                                                                                       \
	{                                                                                          \
		FORM_NONE, OPCODE_END, ONE(unknown)                                                \
	}

static const struct {
	uint8_t first, last;
	struct opcode opcode;
} rows[] = {
	{0x06, 0x06, PUSH},
	{0x07, 0x07, POP},
	{0x0e, 0x0e, PUSH},
	{0x16, 0x16, PUSH},
	{0x17, 0x17, POP},
	{0x1e, 0x1e, PUSH},
	{0x1f, 0x1f, POP},
	{0x27, 0x27, LEFT},
	{0x2f, 0x2f, LEFT},
	{0x37, 0x37, LEFT},
	{0x3f, 0x3f, LEFT},
	{0x40, 0x47, {FORM_R, 0, KIND(inc)}},
	{0x48, 0x4f, {FORM_R, 0, KIND(dec)}},
	{0x60, 0x63, LEFT},
	{0x9a, 0x9a, {FORM_FAR, OPCODE_END, ONE(far_call)}},
	{0xc4, 0xc5, {FORM_R_RM, OPCODE_END, ONE(load_far_pointer)}},
	{0xce, 0xce, {FORM_NONE, OPCODE_END, ONE(into)}},
	{0xd4, 0xd6, LEFT},
	{0xea, 0xea, {FORM_FAR, OPCODE_END, ONE(far_jmp)}},
};

const struct opcode *opcode_outside_64(uint8_t byte)
{
	for (size_t n = 0; n < sizeof(rows) / sizeof(rows[0]); n++)
		if (byte >= rows[n].first && byte <= rows[n].last)
			return &rows[n].opcode;
	return NULL;
}

// SPDX-License-Identifier: MIT
// LOCK, the stack, string instructions: SDM Vol 2.
#include "tests/lib/random_programs/program.h"

#define STRING_BYTES 64

static struct operand base(unsigned reg)
{
	return (struct operand){.base = (uint8_t)reg};
}

/* An aligned quadword, or one that is not but stays within its cache line. */
static struct operand lockable(struct program *p)
{
	struct operand operand = program_memory(p, 64);

	operand.displacement +=
		(int32_t)(program_pick(p, 2) ? 8 * program_pick(p, 8) : program_pick(p, 57));
	return operand;
}

static void locked(struct program *p)
{
	static const uint16_t with_register[] = {0x00, 0x08, 0x10, 0x18,   0x20,
						 0x28, 0x30, 0x86, 0x0fc0, 0x0fb0};
	struct instruction i = {.lock = true, .rm = lockable(p)};

	i.size = (uint8_t)(1u << program_pick(p, 4));
	switch (program_pick(p, 3)) {
	case 0: /* NOT, NEG or INC, DEC */
		i.opcode = program_pick(p, 2) ? 0xf6 : 0xfe;
		i.reg = (uint8_t)((i.opcode == 0xf6 ? 2 : 0) + program_pick(p, 2));
		i.opcode |= i.size > 1;
		break;
	case 1: /* BTS, BTR, BTC */
		i.size = i.size > 1 ? i.size : 2;
		i.opcode = 0x0fba;
		i.reg = (uint8_t)(5 + program_pick(p, 3));
		i.immediate_size = 1;
		i.immediate = program_pick(p, 256);
		break;
	default: /* ADD OR ADC SBB AND SUB XOR, XCHG, XADD, CMPXCHG */
		i.opcode = with_register[program_pick(p, 10)];
		i.opcode |= i.size > 1;
		i.reg = (uint8_t)program_register(p);
	}
	program_add(p, i);
	program_define_flags(p);
}

/*
 * CMPXCHG8B: ZF is what counts. QEMU 7.2 gets the other flags, which should stay, wrong outside of
 * any trace: they are defined anew.
 */
static void compare_exchange_8(struct program *p)
{
	struct operand operand = program_memory(p, 8);

	program_add(p, (struct instruction){
			       .lock = true, .opcode = 0x0fc7, .size = 4, .reg = 1, .rm = operand});
	program_add(p, (struct instruction){
			       .opcode = 0x0f94, .size = 1, .rm = base(program_register(p))});
	program_define_flags(p);
}

static void push(struct program *p, unsigned reg)
{
	uint8_t bytes[] = {(uint8_t)(0x40 | reg >> 3), (uint8_t)(0x50 | (reg & 7))};

	program_add_bytes(p, bytes, sizeof(bytes));
}

static void pop(struct program *p, unsigned reg)
{
	uint8_t bytes[] = {(uint8_t)(0x40 | reg >> 3), (uint8_t)(0x58 | (reg & 7))};

	program_add_bytes(p, bytes, sizeof(bytes));
}

static void stack(struct program *p)
{
	unsigned count = 1 + program_pick(p, 3);

	for (unsigned i = 0; i < count; i++)
		push(p, program_register(p));
	for (unsigned i = 0; i < count; i++)
		pop(p, program_register(p));
}

/* AF may be undefined: PUSHFQ shows it, and is masked. */
static void stack_flags(struct program *p)
{
	unsigned reg = program_register(p);

	program_add_bytes(p, "\x9c", 1);
	pop(p, reg);
	program_add(p, (struct instruction){.opcode = 0x81,
					    .size = 8,
					    .reg = 4, /* AND */
					    .rm = base(reg),
					    .immediate_size = 4,
					    .immediate = 0x8c5});
}

/* LEA without an index, whose mask could hit the other pointer; room for strings downwards too. */
static void place(struct program *p, unsigned reg)
{
	struct operand operand = {.memory = true, .base = R15};

	operand.displacement = (int32_t)(STRING_BYTES * 8 + program_pick(p, 0x1000));
	program_add(p, (struct instruction){
			       .opcode = 0x8d, .size = 8, .reg = (uint8_t)reg, .rm = operand});
}

/* MOVS, STOS, LODS, CMPS, SCAS, repeated or not, in either direction. */
static void string(struct program *p)
{
	static const uint8_t operations[] = {0xa4, 0xa6, 0xaa, 0xac, 0xae};
	uint8_t operation = operations[program_pick(p, sizeof(operations))];
	uint8_t size = (uint8_t)(1u << program_pick(p, 4)), bytes[4], count = 0;
	bool down = program_pick(p, 4) == 0, repeated = program_pick(p, 4) != 0;

	place(p, RSI);
	place(p, RDI);
	program_add(p, (struct instruction){.opcode = 0xc7, /* MOV RCX, count */
					    .size = 8,
					    .rm = base(RCX),
					    .immediate_size = 4,
					    .immediate = program_pick(p, STRING_BYTES)});
	if (down)
		program_add_bytes(p, "\xfd", 1);
	if (size == 2)
		bytes[count++] = 0x66;
	if (repeated)
		bytes[count++] = program_pick(p, 2) ? 0xf3 : 0xf2;
	bytes[count++] = size == 8 ? 0x48 : 0x40;
	bytes[count++] = (uint8_t)(operation | (size > 1));
	program_add_bytes(p, bytes, count);
	if (down)
		program_add_bytes(p, "\xfc", 1);
}

void program_memory_access(struct program *p)
{
	static void (*const kinds[])(struct program *) = {locked, locked,      compare_exchange_8,
							  stack,  stack_flags, string};

	kinds[program_pick(p, sizeof(kinds) / sizeof(kinds[0]))](p);
}

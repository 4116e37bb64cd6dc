// SPDX-License-Identifier: MIT
// Addition and the like, shifts, multiplication, division: SDM Vol 2; the undefined flags too.
#include "tests/lib/random_programs/program.h"

static uint8_t any_size(struct program *p)
{
	return (uint8_t)(1u << program_pick(p, 4));
}

static uint8_t any_register(struct program *p)
{
	return (uint8_t)program_register(p);
}

/* ADD OR ADC SBB AND SUB XOR CMP in their five forms. */
static void alu(struct program *p)
{
	struct instruction i = {.size = any_size(p), .rm = program_operand(p)};
	unsigned operation = program_pick(p, 8), wide = i.size > 1;

	i.reg = any_register(p);
	switch (program_pick(p, 4)) {
	case 0:
		i.opcode = (uint16_t)(operation * 8 + wide);
		break;
	case 1:
		i.opcode = (uint16_t)(operation * 8 + 2 + wide);
		break;
	case 2:
		i.opcode = (uint16_t)(0x80 + wide);
		i.reg = (uint8_t)operation;
		i.immediate_size = i.size > 4 ? 4 : i.size;
		break;
	default:
		i.opcode = wide ? 0x83 : 0x80;
		i.reg = (uint8_t)operation;
		i.immediate_size = 1;
	}
	i.immediate = (uint32_t)random_next(&p->random);
	program_add(p, i);
}

/* NOT, NEG, INC, DEC. */
static void unary(struct program *p)
{
	struct instruction i = {.size = any_size(p), .rm = program_operand(p)};
	unsigned operation = program_pick(p, 4);

	i.opcode = (uint16_t)((operation < 2 ? 0xf6 : 0xfe) + (i.size > 1));
	i.reg = (uint8_t)(operation < 2 ? 2 + operation : operation - 2);
	program_add(p, i);
}

static void shift(struct program *p)
{
	static const uint16_t forms[] = {0xc0, 0xd0, 0xd2}; /* by an immediate, by 1, by CL */
	static const uint8_t operations[] = {0, 1, 2, 3, 4, 5, 7};
	struct instruction i = {.size = any_size(p), .rm = program_operand(p)};
	unsigned form = program_pick(p, 3);

	i.opcode = (uint16_t)(forms[form] + (i.size > 1));
	i.reg = operations[program_pick(p, sizeof(operations))];
	i.immediate_size = form == 0;
	i.immediate = program_pick(p, 256);
	program_add(p, i);
	program_define_flags(p);
}

/* SHLD and SHRD of 32 and 64 bits, whose masked count cannot exceed the operand. */
static void shift_double(struct program *p)
{
	struct instruction i = {.size = program_pick(p, 2) ? 4 : 8, .rm = program_operand(p)};
	bool by_cl = program_pick(p, 2), right = program_pick(p, 2);

	i.opcode = (uint16_t)(0x0fa4 + by_cl + 8 * right);
	i.reg = any_register(p);
	i.immediate_size = !by_cl;
	i.immediate = program_pick(p, 256);
	program_add(p, i);
	program_define_flags(p);
}

static void multiply(struct program *p)
{
	struct instruction i = {.size = any_size(p), .rm = program_operand(p)};
	unsigned form = program_pick(p, i.size > 1 ? 4 : 2);

	if (form < 2) { /* MUL, IMUL of RAX */
		i.opcode = (uint16_t)(0xf6 + (i.size > 1));
		i.reg = (uint8_t)(4 + form);
	} else if (form == 2) {
		i.opcode = 0x0faf;
		i.reg = any_register(p);
	} else {
		i.opcode = 0x6b;
		i.reg = any_register(p);
		i.immediate_size = 1;
		i.immediate = program_pick(p, 256);
	}
	program_add(p, i);
	program_define_flags(p);
}

/*
 * DIV and IDIV by an odd number of a dividend whose upper half is 0 and, for IDIV, whose sign is
 * 0: the quotient fits.
 */
static void divide(struct program *p)
{
	static const uint8_t divisors[] = {RCX, RBX, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13};
	uint8_t size = any_size(p), divisor = divisors[program_pick(p, sizeof(divisors))];
	bool is_signed = program_pick(p, 2), wide = size > 1;

	if (is_signed) /* SHR by 1 */
		program_add(p, (struct instruction){
				       .opcode = (uint16_t)(0xd0 + wide), .size = size, .reg = 5});
	if (wide) /* XOR EDX, EDX */
		program_add(p, (struct instruction){
				       .opcode = 0x31, .size = 4, .reg = RDX, .rm = {.base = RDX}});
	else /* MOVZX EAX, AL */
		program_add(p, (struct instruction){.opcode = 0x0fb6, .size = 4});
	program_add(p, (struct instruction){.opcode = 0x83, /* OR divisor, 1 */
					    .size = 8,
					    .reg = 1,
					    .rm = {.base = divisor},
					    .immediate_size = 1,
					    .immediate = 1});
	program_add(p, (struct instruction){.opcode = (uint16_t)(0xf6 + wide),
					    .size = size,
					    .reg = (uint8_t)(6 + is_signed),
					    .rm = {.base = divisor}});
	program_define_flags(p);
}

void program_arithmetic(struct program *p)
{
	static void (*const kinds[])(struct program *) = {
		alu, alu, alu, alu, unary, unary, shift, shift, shift_double, multiply, divide};

	kinds[program_pick(p, sizeof(kinds) / sizeof(kinds[0]))](p);
}

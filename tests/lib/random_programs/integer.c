// SPDX-License-Identifier: MIT
// Moves, conversions, conditions, single bits: SDM Vol 2.
#include "tests/lib/random_programs/program.h"

/* 2, 4 or 8. */
static uint8_t wide_size(struct program *p)
{
	return (uint8_t)(2u << program_pick(p, 3));
}

static void move(struct program *p)
{
	struct instruction i = {.size = (uint8_t)(1u << program_pick(p, 4)),
				.rm = program_operand(p)};
	unsigned form = program_pick(p, 3);

	i.opcode = (uint16_t)((form == 0 ? 0x88 : form == 1 ? 0x8a : 0xc6) + (i.size > 1));
	i.reg = (uint8_t)program_register(p);
	if (form == 2) {
		i.reg = 0;
		i.immediate_size = i.size > 4 ? 4 : i.size;
		i.immediate = (uint32_t)random_next(&p->random);
	}
	program_add(p, i);
}

/* MOVZX, MOVSX, MOVSXD. */
static void extend(struct program *p)
{
	struct instruction i = {.size = wide_size(p), .rm = program_operand(p)};
	unsigned form = program_pick(p, 3);

	i.reg = (uint8_t)program_register(p);
	if (form == 2) {
		i.opcode = 0x63;
		i.size = 8;
	} else {
		i.opcode = form ? 0x0fbe : 0x0fb6;
		i.opcode |= i.size > 2 && program_pick(p, 2);
	}
	program_add(p, i);
}

static void conditional(struct program *p)
{
	unsigned condition = program_pick(p, 16);

	if (program_pick(p, 2)) /* CMOVcc */
		program_add(p, (struct instruction){.opcode = (uint16_t)(0x0f40 + condition),
						    .size = wide_size(p),
						    .reg = (uint8_t)program_register(p),
						    .rm = program_operand(p)});
	else /* SETcc */
		program_add(p, (struct instruction){.opcode = (uint16_t)(0x0f90 + condition),
						    .size = 1,
						    .rm = program_operand(p)});
}

static void exchange(struct program *p)
{
	program_add(p, (struct instruction){.opcode = 0x87,
					    .size = wide_size(p),
					    .reg = (uint8_t)program_register(p),
					    .rm = {.base = (uint8_t)program_register(p)}});
}

static void load_address(struct program *p)
{
	struct operand rm = program_memory(p, 1);

	/* 32 bits of an address of the data: the same in each run. */
	program_add(p, (struct instruction){.opcode = 0x8d,
					    .size = program_pick(p, 2) ? 4 : 8,
					    .reg = (uint8_t)program_register(p),
					    .rm = rm});
}

/* BT, BTS, BTR, BTC of a register, by register or immediate; of memory by immediate. */
static void bit(struct program *p)
{
	static const uint16_t by_register[] = {0x0fa3, 0x0fab, 0x0fb3, 0x0fbb};
	struct instruction i = {.size = wide_size(p)};
	unsigned operation = program_pick(p, 4);

	if (program_pick(p, 2)) {
		i.opcode = by_register[operation];
		i.reg = (uint8_t)program_register(p);
		i.rm.base = (uint8_t)program_register(p);
	} else {
		i.opcode = 0x0fba;
		i.reg = (uint8_t)(4 + operation);
		i.rm = program_operand(p);
		i.immediate_size = 1;
		i.immediate = program_pick(p, 256);
	}
	program_add(p, i);
	program_define_flags(p);
}

/* BSF and BSR: of 0 they leave the target undefined, so bit 0 is set first. */
static void scan(struct program *p)
{
	struct operand source = {.base = (uint8_t)program_register(p)};

	program_add(p, (struct instruction){.opcode = 0x83,
					    .size = 4,
					    .reg = 1,
					    .rm = source,
					    .immediate_size = 1,
					    .immediate = 1});
	program_add(p, (struct instruction){.opcode = program_pick(p, 2) ? 0x0fbc : 0x0fbd,
					    .size = program_pick(p, 2) ? 4 : 8,
					    .reg = (uint8_t)program_register(p),
					    .rm = source});
	program_define_flags(p);
}

/* BSWAP; CBW, CWDE, CDQE, CWD, CDQ, CQO; CMC, CLC, STC; LAHF is left out: AF is undefined. */
static void without_operand(struct program *p)
{
	static const uint8_t carry[] = {0xf5, 0xf8, 0xf9};
	unsigned reg = program_register(p), rex_w = program_pick(p, 2) ? 0x48 : 0x40;
	uint8_t swap[] = {(uint8_t)(rex_w | reg >> 3), 0x0f, (uint8_t)(0xc8 | (reg & 7))};
	uint8_t convert[] = {0x66, (uint8_t)rex_w, (uint8_t)(0x98 + program_pick(p, 2))};

	switch (program_pick(p, 3)) {
	case 0:
		program_add_bytes(p, swap, sizeof(swap));
		break;
	case 1: /* with or without the operand-size prefix */
		program_pick(p, 3) ? program_add_bytes(p, convert + 1, 2)
				   : program_add_bytes(p, convert, 3);
		break;
	default:
		program_add_bytes(p, &carry[program_pick(p, 3)], 1);
	}
}

void program_integer(struct program *p)
{
	static void (*const kinds[])(struct program *) = {move,	       move,	 extend,
							  conditional, exchange, load_address,
							  bit,	       scan,	 without_operand};

	kinds[program_pick(p, sizeof(kinds) / sizeof(kinds[0]))](p);
}

// Addition and the like, shifts, multiplication, division: SDM Vol 2; the undefined flags too.

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

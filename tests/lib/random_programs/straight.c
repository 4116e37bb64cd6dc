// SPDX-License-Identifier: MIT
// Moves, conversions, conditions, single bits: SDM Vol 2.
#include "tests/framework/random.h"
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

// LOCK, the stack, string instructions: SDM Vol 2.

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

// SSE and SSE2, which each processor with IA-32e mode has: SDM Vol 2.

struct form {
	uint8_t prefix;
	uint16_t opcode;
};

static uint8_t any_xmm(struct program *p)
{
	return (uint8_t)program_pick(p, 16);
}

/* XMM and XMM: arithmetic of integers, single and double precision, shuffles. */
static void two_registers(struct program *p)
{
	static const struct form forms[] = {
		{0x66, 0x0ffc}, {0x66, 0x0ffd},
		{0x66, 0x0ffe}, {0x66, 0x0fd4}, /* PADDx */
		{0x66, 0x0ff8}, {0x66, 0x0ffb},
		{0x66, 0x0fef}, {0x66, 0x0feb}, /* PSUBx PXOR POR */
		{0x66, 0x0fdb}, {0x66, 0x0fdf},
		{0x66, 0x0ff4}, {0x66, 0x0fd5}, /* PAND.. PMUL.. */
		{0x66, 0x0f74}, {0x66, 0x0f66},
		{0x66, 0x0f61}, {0x66, 0x0f6c}, /* PCMP.. PUNPCK.. */
		{0x66, 0x0f63}, {0x66, 0x0f6f},
		{0xf3, 0x0f6f}, {0x00, 0x0f28}, /* PACK.. MOV.. */
		{0x00, 0x0f58}, {0x00, 0x0f59},
		{0x00, 0x0f5c}, {0x00, 0x0f5e}, /* ADDPS .. DIVPS */
		{0x66, 0x0f58}, {0x66, 0x0f59},
		{0xf2, 0x0f58}, {0xf3, 0x0f59}, /* ..PD ..SD ..SS */
		{0x00, 0x0f51}, {0xf2, 0x0f51},
		{0x00, 0x0f5d}, {0x66, 0x0f5f}, /* SQRT MIN MAX */
		{0x00, 0x0f5b}, {0x66, 0x0f5b},
		{0xf2, 0x0f5a}, {0xf3, 0x0f5a}, /* CVT.. */
	};
	const struct form *form = &forms[program_pick(p, sizeof(forms) / sizeof(forms[0]))];

	program_add(p, (struct instruction){.prefix = form->prefix,
					    .opcode = form->opcode,
					    .size = 4,
					    .reg = any_xmm(p),
					    .rm = {.base = any_xmm(p)}});
}

/* PSHUFD, SHUFPS, shifts by an immediate. */
static void with_immediate(struct program *p)
{
	static const struct form forms[] = {
		{0x66, 0x0f70}, {0xf2, 0x0f70}, {0x00, 0x0fc6}, {0x66, 0x0f72}, {0x66, 0x0f73}};
	static const uint8_t shifts[] = {2, 6};
	const struct form *form = &forms[program_pick(p, sizeof(forms) / sizeof(forms[0]))];
	bool shift = form->opcode == 0x0f72 || form->opcode == 0x0f73;

	program_add(p, (struct instruction){.prefix = form->prefix,
					    .opcode = form->opcode,
					    .size = 4,
					    .reg = shift ? shifts[program_pick(p, 2)] : any_xmm(p),
					    .rm = {.base = any_xmm(p)},
					    .immediate_size = 1,
					    .immediate = program_pick(p, 256)});
}

/* MOVDQU, MOVQ, MOVD, MOVSS, MOVSD between XMM and memory at any address. */
static void load_or_store(struct program *p)
{
	static const struct form forms[] = {{0xf3, 0x0f6f}, {0xf3, 0x0f7f}, {0x00, 0x0f10},
					    {0x00, 0x0f11}, {0xf2, 0x0f10}, {0xf2, 0x0f11},
					    {0xf3, 0x0f10}, {0xf3, 0x0f11}, {0x66, 0x0fd6}};
	const struct form *form = &forms[program_pick(p, sizeof(forms) / sizeof(forms[0]))];
	struct operand operand = program_memory(p, 1);

	program_add(p, (struct instruction){.prefix = form->prefix,
					    .opcode = form->opcode,
					    .size = 4,
					    .reg = any_xmm(p),
					    .rm = operand});
}

/* MOVQ and MOVD between XMM and general registers, conversions, PMOVMSKB, UCOMISD. */
static void with_general(struct program *p)
{
	static const struct form forms[] = {{0x66, 0x0f6e}, {0x66, 0x0f7e}, {0xf2, 0x0f2a},
					    {0xf3, 0x0f2a}, {0xf2, 0x0f2c}, {0xf3, 0x0f2d},
					    {0x66, 0x0fd7}, {0x66, 0x0f2e}};
	unsigned kind = program_pick(p, sizeof(forms) / sizeof(forms[0]));
	struct instruction i = {.prefix = forms[kind].prefix,
				.opcode = forms[kind].opcode,
				.size = program_pick(p, 2) ? 4 : 8};

	/* The general register is the target from CVTSD2SI on, else the second operand. */
	i.reg = kind < 4 ? any_xmm(p) : (uint8_t)program_register(p);
	i.rm.base = kind < 4 ? (uint8_t)program_register(p) : any_xmm(p);
	if (forms[kind].opcode == 0x0f2e)
		i.reg = any_xmm(p);
	program_add(p, i);
}

void program_sse(struct program *p)
{
	static void (*const kinds[])(struct program *) = {two_registers, with_immediate,
							  load_or_store, with_general};

	kinds[program_pick(p, sizeof(kinds) / sizeof(kinds[0]))](p);
}

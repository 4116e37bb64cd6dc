// SPDX-License-Identifier: MIT
// SSE and SSE2, which each processor with IA-32e mode has: SDM Vol 2.
#include "tests/lib/random_programs/program.h"

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

// SPDX-License-Identifier: MIT
/* The one-byte opcodes of 64-bit mode, and those of other modes (SDM Vol 2, table A-2). */
#include "monitor/interp/handlers.h"

#include <stddef.h>

#define ONE(name)      SELECT_ONE, (handler *const[]){name}, NULL
#define SIZE(name)     SELECT_SIZE, run_##name, NULL
#define KIND(name)     SELECT_KIND, run_##name, NULL
#define NEAR(name)     SELECT_BRANCH, run_##name, NULL
#define GROUP(members) FORM_NONE, 0, 0, NULL, members
#define NOT_IN_64                                                                                  \
	{                                                                                          \
		FORM_NONE, OPCODE_END, ONE(undefined)                                              \
	}

#define BYTE   OPCODE_BYTE
#define LOCK   OPCODE_LOCK
#define END    OPCODE_END
#define STACK  (OPCODE_64 | OPCODE_STACK)
#define BRANCH (OPCODE_64 | OPCODE_STACK | OPCODE_END)

#define ARITHMETIC(first, name, lock)                                                              \
	[first] = {FORM_RM_R, BYTE | (lock), KIND(name)},                                          \
	[(first) + 1] = {FORM_RM_R, lock, KIND(name)},                                             \
	[(first) + 2] = {FORM_R_RM, BYTE, KIND(name)}, [(first) + 3] = {FORM_R_RM, 0, KIND(name)}, \
	[(first) + 4] = {FORM_A_I, BYTE, KIND(name)}, [(first) + 5] = {FORM_A_I, 0, KIND(name)}

#define ARITHMETIC_GROUP(form, flags)                                                              \
	{                                                                                          \
		{form, (flags) | LOCK, KIND(add)}, {form, (flags) | LOCK, KIND(or)},               \
			{form, (flags) | LOCK, KIND(adc)}, {form, (flags) | LOCK, KIND(sbb)},      \
			{form, (flags) | LOCK, KIND(and)}, {form, (flags) | LOCK, KIND(sub)},      \
			{form, (flags) | LOCK, KIND(xor)}, {form, flags, KIND(cmp)},               \
	}

#define SHIFT_GROUP(form, flags)                                                                   \
	{                                                                                          \
		{form, flags, SIZE(rol)}, {form, flags, SIZE(ror)}, {form, flags, SIZE(rcl)},      \
			{form, flags, SIZE(rcr)}, {form, flags, SIZE(shl)},                        \
			{form, flags, SIZE(shr)}, {form, flags, SIZE(shl)},                        \
			{form, flags, SIZE(sar)},                                                  \
	}

#define UNARY_GROUP(flags)                                                                         \
	{                                                                                          \
		{FORM_RM_I, flags, KIND(test)}, {FORM_RM_I, flags, KIND(test)},                    \
			{FORM_RM, (flags) | LOCK, KIND(not )},                                     \
			{FORM_RM, (flags) | LOCK, KIND(neg)}, {FORM_RM, flags, SIZE(mul)},         \
			{FORM_RM, flags, SIZE(imul)}, {FORM_RM, flags, SIZE(div)},                 \
			{FORM_RM, flags, SIZE(idiv)},                                              \
	}

static const struct opcode group_80[8] = ARITHMETIC_GROUP(FORM_RM_I, BYTE);
static const struct opcode group_81[8] = ARITHMETIC_GROUP(FORM_RM_I, 0);
static const struct opcode group_83[8] = ARITHMETIC_GROUP(FORM_RM_I8, 0);
static const struct opcode group_c0[8] = SHIFT_GROUP(FORM_RM_I8, BYTE);
static const struct opcode group_c1[8] = SHIFT_GROUP(FORM_RM_I8, 0);
static const struct opcode group_d0[8] = SHIFT_GROUP(FORM_RM_1, BYTE);
static const struct opcode group_d1[8] = SHIFT_GROUP(FORM_RM_1, 0);
static const struct opcode group_d2[8] = SHIFT_GROUP(FORM_RM_CL, BYTE);
static const struct opcode group_d3[8] = SHIFT_GROUP(FORM_RM_CL, 0);
static const struct opcode group_f6[8] = UNARY_GROUP(BYTE);
static const struct opcode group_f7[8] = UNARY_GROUP(0);

static const struct opcode group_8f[8] = {{FORM_RM, OPCODE_64, ONE(pop_operand)}};
static const struct opcode group_c6[8] = {{FORM_RM_I, BYTE, KIND(mov)}};
static const struct opcode group_c7[8] = {{FORM_RM_I, 0, KIND(mov)}};
static const struct opcode group_fe[8] = {
	{FORM_RM, BYTE | LOCK, KIND(inc)},
	{FORM_RM, BYTE | LOCK, KIND(dec)},
};
static const struct opcode group_ff[8] = {
	{FORM_RM, LOCK, KIND(inc)},
	{FORM_RM, LOCK, KIND(dec)},
	{FORM_RM, OPCODE_64 | END, ONE(call_operand)},
	{FORM_RM, OPCODE_MEMORY | END, ONE(far_call)},
	{FORM_RM, OPCODE_64 | END, ONE(jmp_operand)},
	{FORM_RM, OPCODE_MEMORY | END, ONE(far_jmp)},
	{FORM_RM, OPCODE_64, ONE(push_memory)},
	NOT_IN_64,
};

const struct opcode opcodes_one[256] = {
	ARITHMETIC(0x00, add, LOCK),
	ARITHMETIC(0x08, or, LOCK),
	ARITHMETIC(0x10, adc, LOCK),
	ARITHMETIC(0x18, sbb, LOCK),
	ARITHMETIC(0x20, and, LOCK),
	ARITHMETIC(0x28, sub, LOCK),
	ARITHMETIC(0x30, xor, LOCK),
	ARITHMETIC(0x38, cmp, 0),
	[0x06 ... 0x07] = NOT_IN_64,
	[0x0e] = NOT_IN_64,
	[0x16 ... 0x17] = NOT_IN_64,
	[0x1e ... 0x1f] = NOT_IN_64,
	[0x27] = NOT_IN_64,
	[0x2f] = NOT_IN_64,
	[0x37] = NOT_IN_64,
	[0x3f] = NOT_IN_64,
	[0x50 ... 0x57] = {FORM_R, STACK, ONE(push_register)},
	[0x58 ... 0x5f] = {FORM_R, STACK, ONE(pop_register)},
	[0x60 ... 0x61] = NOT_IN_64,
	[0x63] = {FORM_R_RM, 0, KIND(movsxd)},
	[0x68] = {FORM_I, STACK, ONE(push_immediate)},
	[0x69] = {FORM_R_RM_I, 0, SIZE(imul_three)},
	[0x6a] = {FORM_I8, STACK, ONE(push_immediate)},
	[0x6b] = {FORM_R_RM_I8, 0, SIZE(imul_three)},
	[0x6c] = {FORM_NONE, BYTE | END, ONE(ins)},
	[0x6d] = {FORM_NONE, END, ONE(ins)},
	[0x6e] = {FORM_NONE, BYTE | END, ONE(outs)},
	[0x6f] = {FORM_NONE, END, ONE(outs)},
	[0x70 ... 0x7f] = {FORM_J8, OPCODE_64, SELECT_CONDITION, run_jcc, NULL},
	[0x80] = {GROUP(group_80)},
	[0x81] = {GROUP(group_81)},
	[0x82] = NOT_IN_64,
	[0x83] = {GROUP(group_83)},
	[0x84] = {FORM_RM_R, BYTE, KIND(test)},
	[0x85] = {FORM_RM_R, 0, KIND(test)},
	[0x86] = {FORM_RM_R, BYTE | LOCK, SIZE(xchg)},
	[0x87] = {FORM_RM_R, LOCK, SIZE(xchg)},
	[0x88] = {FORM_RM_R, BYTE, KIND(mov)},
	[0x89] = {FORM_RM_R, 0, KIND(mov)},
	[0x8a] = {FORM_R_RM, BYTE, KIND(mov)},
	[0x8b] = {FORM_R_RM, 0, KIND(mov)},
	[0x8c] = {FORM_RM, 0, ONE(mov_from_segment)},
	[0x8d] = {FORM_R_RM, OPCODE_MEMORY, SIZE(lea)},
	[0x8e] = {FORM_RM, END, ONE(mov_to_segment)},
	[0x8f] = {GROUP(group_8f)},
	[0x90] = {FORM_A_R, 0, SIZE(nop_or_xchg)},
	[0x91 ... 0x97] = {FORM_A_R, 0, SIZE(xchg)},
	[0x98] = {FORM_NONE, 0, ONE(extend_accumulator)},
	[0x99] = {FORM_NONE, 0, ONE(extend_into_rdx)},
	[0x9a] = NOT_IN_64,
	[0x9b] = {FORM_NONE, 0, ONE(wait_x87)},
	[0x9c] = {FORM_NONE, STACK, ONE(push_flags)},
	[0x9d] = {FORM_NONE, BRANCH, ONE(pop_flags)},
	[0x9e] = {FORM_NONE, 0, ONE(sahf)},
	[0x9f] = {FORM_NONE, 0, ONE(lahf)},
	[0xa0] = {FORM_A_O, BYTE, KIND(mov)},
	[0xa1] = {FORM_A_O, 0, KIND(mov)},
	[0xa2] = {FORM_O_A, BYTE, KIND(mov)},
	[0xa3] = {FORM_O_A, 0, KIND(mov)},
	[0xa4] = {FORM_NONE, BYTE | END, SIZE(movs)},
	[0xa5] = {FORM_NONE, END, SIZE(movs)},
	[0xa6] = {FORM_NONE, BYTE | END, SIZE(cmps)},
	[0xa7] = {FORM_NONE, END, SIZE(cmps)},
	[0xa8] = {FORM_A_I, BYTE, KIND(test)},
	[0xa9] = {FORM_A_I, 0, KIND(test)},
	[0xaa] = {FORM_NONE, BYTE | END, SIZE(stos)},
	[0xab] = {FORM_NONE, END, SIZE(stos)},
	[0xac] = {FORM_NONE, BYTE | END, SIZE(lods)},
	[0xad] = {FORM_NONE, END, SIZE(lods)},
	[0xae] = {FORM_NONE, BYTE | END, SIZE(scas)},
	[0xaf] = {FORM_NONE, END, SIZE(scas)},
	[0xb0 ... 0xb7] = {FORM_R_I, BYTE, KIND(mov)},
	[0xb8 ... 0xbf] = {FORM_R_I, 0, KIND(mov)},
	[0xc0] = {GROUP(group_c0)},
	[0xc1] = {GROUP(group_c1)},
	[0xc2] = {FORM_I16, BRANCH, NEAR(ret)},
	[0xc3] = {FORM_NONE, BRANCH, NEAR(ret)},
	[0xc6] = {GROUP(group_c6)},
	[0xc7] = {GROUP(group_c7)},
	[0xc8] = {FORM_I16_I8, STACK, ONE(enter_frame)},
	[0xc9] = {FORM_NONE, STACK, ONE(leave_frame)},
	[0xca] = {FORM_I16, OPCODE_STACK | END, ONE(far_ret)},
	[0xcb] = {FORM_NONE, OPCODE_STACK | END, ONE(far_ret)},
	[0xcc] = {FORM_NONE, END, ONE(int3)},
	[0xcd] = {FORM_I8, END, ONE(int_n)},
	[0xce] = NOT_IN_64,
	[0xcf] = {FORM_NONE, OPCODE_STACK | END, ONE(iret)},
	[0xd0] = {GROUP(group_d0)},
	[0xd1] = {GROUP(group_d1)},
	[0xd2] = {GROUP(group_d2)},
	[0xd3] = {GROUP(group_d3)},
	[0xd4 ... 0xd6] = NOT_IN_64,
	[0xd7] = {FORM_NONE, 0, ONE(xlat)},
	[0xe0 ... 0xe2] = {FORM_J8, BRANCH, ONE(loop_while)},
	[0xe3] = {FORM_J8, BRANCH, ONE(jump_if_rcx_zero)},
	[0xe4] = {FORM_I8, BYTE | END, ONE(in_port)},
	[0xe5] = {FORM_I8, END, ONE(in_port)},
	[0xe6] = {FORM_I8, BYTE | END, ONE(out_port)},
	[0xe7] = {FORM_I8, END, ONE(out_port)},
	[0xe8] = {FORM_J, BRANCH, NEAR(call)},
	[0xe9] = {FORM_J, BRANCH, NEAR(jmp)},
	[0xea] = NOT_IN_64,
	[0xeb] = {FORM_J8, BRANCH, NEAR(jmp)},
	[0xec] = {FORM_NONE, BYTE | END, ONE(in_port)},
	[0xed] = {FORM_NONE, END, ONE(in_port)},
	[0xee] = {FORM_NONE, BYTE | END, ONE(out_port)},
	[0xef] = {FORM_NONE, END, ONE(out_port)},
	[0xf1] = {FORM_NONE, END, ONE(int1)},
	[0xf4] = {FORM_NONE, END, ONE(hlt)},
	[0xf5] = {FORM_NONE, 0, ONE(cmc)},
	[0xf6] = {GROUP(group_f6)},
	[0xf7] = {GROUP(group_f7)},
	[0xf8] = {FORM_NONE, 0, ONE(clc)},
	[0xf9] = {FORM_NONE, 0, ONE(stc)},
	[0xfa] = {FORM_NONE, 0, ONE(cli)},
	[0xfb] = {FORM_NONE, END, ONE(sti)},
	[0xfc] = {FORM_NONE, 0, ONE(cld)},
	[0xfd] = {FORM_NONE, 0, ONE(std_)},
	[0xfe] = {GROUP(group_fe)},
	[0xff] = {GROUP(group_ff)},
};

/*
 * One-byte opcodes that mean something else outside 64-bit mode. Decimal
 * adjustments, PUSHA, POPA, BOUND and ARPL are left to the processor.
 */
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

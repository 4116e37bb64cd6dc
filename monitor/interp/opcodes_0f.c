// SPDX-License-Identifier: MIT
/* The two-byte opcodes of 64-bit mode (SDM Vol 2, table A-3). SSE is in thunk_forms.c. */
#include <stddef.h>

#include "monitor/interp/handlers.h"

#define ONE(name)      SELECT_ONE, (handler *const[]){name}, NULL
#define SIZE(name)     SELECT_SIZE, run_##name, NULL
#define KIND(name)     SELECT_KIND, run_##name, NULL
#define GROUP(members) FORM_NONE, 0, 0, NULL, members
#define UNDEFINED                                                                                  \
	{                                                                                          \
		FORM_NONE, OPCODE_END, ONE(undefined)                                              \
	}

#define BYTE OPCODE_BYTE
#define LOCK OPCODE_LOCK
#define END  OPCODE_END

static const struct opcode group_6[8] = {
	{FORM_RM, 0, ONE(sldt)},
	{FORM_RM, 0, ONE(str)},
	{FORM_RM, END, ONE(lldt)},
	{FORM_RM, END, ONE(ltr)},
	{FORM_RM, 0, ONE(verify_read)},
	{FORM_RM, 0, ONE(verify_write)},
	UNDEFINED,
	UNDEFINED,
};
static const struct opcode group_7[8] = {
	{FORM_RM, END, ONE(sgdt_group)}, {FORM_RM, END, ONE(sidt_group)},
	{FORM_RM, END, ONE(lgdt_group)}, {FORM_RM, END, ONE(lidt_group)},
	{FORM_RM, 0, ONE(smsw)},	 {FORM_RM, END, ONE(unknown)},
	{FORM_RM, END, ONE(lmsw)},	 {FORM_RM, END, ONE(invlpg_group)},
};
static const struct opcode group_8[8] = {
	UNDEFINED,
	UNDEFINED,
	UNDEFINED,
	UNDEFINED,
	{FORM_RM_I8, 0, SIZE(bt)},
	{FORM_RM_I8, LOCK, SIZE(bts)},
	{FORM_RM_I8, LOCK, SIZE(btr)},
	{FORM_RM_I8, LOCK, SIZE(btc)},
};
static const struct opcode group_9[8] = {
	UNDEFINED,
	{FORM_RM, LOCK | OPCODE_MEMORY, ONE(cmpxchg_wide)},
	[3] = {FORM_RM, OPCODE_MEMORY | OPCODE_BARE | END, ONE(xrstors)},
	[5] = {FORM_RM, OPCODE_MEMORY | OPCODE_BARE | END, ONE(xsaves)},
};
/* 0 to 3 in memory form: FXSAVE and its kin, thunk_decode(). */
static const struct opcode group_15[8] = {
	[5] = {FORM_RM, 0, ONE(fence)},
	[6] = {FORM_RM, 0, ONE(fence)},
	[7] = {FORM_RM, 0, ONE(fence)},
};

const struct opcode opcode_crc32_or_movbe[2] = {
	{FORM_R_RM, 0, ONE(crc32_or_movbe)},
	{FORM_R_RM, 0, ONE(crc32_or_movbe)},
};

const struct opcode opcodes_0f[256] = {
	[0x00] = {GROUP(group_6)},
	[0x01] = {GROUP(group_7)},
	[0x02] = {FORM_R_RM, 0, ONE(load_access_rights)},
	[0x03] = {FORM_R_RM, 0, ONE(load_limit)},
	[0x05] = {FORM_NONE, END, ONE(syscall_)},
	[0x06] = {FORM_NONE, END, ONE(clts)},
	[0x07] = {FORM_NONE, END, ONE(sysret)},
	[0x08 ... 0x09] = {FORM_NONE, 0, ONE(cache_control)},
	[0x0b] = UNDEFINED,
	[0x0d] = {FORM_RM, 0, ONE(nop)},
	[0x18 ... 0x1f] = {FORM_RM, 0, ONE(nop)},
	[0x20] = {FORM_RM, 0, ONE(mov_from_cr)},
	[0x21] = {FORM_RM, 0, ONE(mov_from_dr)},
	[0x23] = {FORM_RM, 0, ONE(mov_to_dr)},
	[0x22] = {FORM_RM, END, ONE(mov_to_cr)},
	[0x30] = {FORM_NONE, END, ONE(wrmsr)},
	[0x31] = {FORM_NONE, 0, ONE(rdtsc)},
	[0x32] = {FORM_NONE, 0, ONE(rdmsr)},
	[0x34] = {FORM_NONE, END, ONE(sysenter)},
	[0x35] = {FORM_NONE, END, ONE(sysexit)},
	[0x40 ... 0x4f] = {FORM_R_RM, 0, SIZE(cmov)},
	[0x80 ... 0x8f] = {FORM_J, OPCODE_64, SELECT_CONDITION, run_jcc, NULL},
	[0x90 ... 0x9f] = {FORM_RM, BYTE, ONE(set_condition)},
	[0xa0] = {FORM_NONE, OPCODE_64 | OPCODE_STACK, ONE(push_segment)},
	[0xa1] = {FORM_NONE, OPCODE_64 | OPCODE_STACK | END, ONE(pop_segment)},
	[0xa2] = {FORM_NONE, 0, ONE(cpuid)},
	[0xa3] = {FORM_RM_R, 0, SIZE(bt)},
	[0xa4] = {FORM_RM_R_I8, 0, SIZE(shld)},
	[0xa5] = {FORM_RM_R_CL, 0, SIZE(shld)},
	[0xa8] = {FORM_NONE, OPCODE_64 | OPCODE_STACK, ONE(push_segment)},
	[0xa9] = {FORM_NONE, OPCODE_64 | OPCODE_STACK | END, ONE(pop_segment)},
	[0xaa] = UNDEFINED, /* RSM outside SMM */
	[0xab] = {FORM_RM_R, LOCK, SIZE(bts)},
	[0xac] = {FORM_RM_R_I8, 0, SIZE(shrd)},
	[0xad] = {FORM_RM_R_CL, 0, SIZE(shrd)},
	[0xae] = {GROUP(group_15)},
	[0xaf] = {FORM_R_RM, 0, SIZE(imul_two)},
	[0xb0] = {FORM_RM_R, BYTE | LOCK, SIZE(cmpxchg)},
	[0xb1] = {FORM_RM_R, LOCK, SIZE(cmpxchg)},
	[0xb2] = {FORM_R_RM, OPCODE_MEMORY | END, ONE(load_far_pointer)},
	[0xb3] = {FORM_RM_R, LOCK, SIZE(btr)},
	[0xb4 ... 0xb5] = {FORM_R_RM, OPCODE_MEMORY | END, ONE(load_far_pointer)},
	[0xb6] = {FORM_R_RM8, 0, KIND(movzx8)},
	[0xb7] = {FORM_R_RM, 0, KIND(movzx16)},
	[0xb8] = {FORM_R_RM, 0, SIZE(popcnt)},
	[0xb9] = {FORM_R_RM, END, ONE(undefined)}, /* UD1 */
	[0xba] = {GROUP(group_8)},
	[0xbb] = {FORM_RM_R, LOCK, SIZE(btc)},
	[0xbc] = {FORM_R_RM, 0, SIZE(bsf)},
	[0xbd] = {FORM_R_RM, 0, SIZE(bsr)},
	[0xbe] = {FORM_R_RM8, 0, KIND(movsx8)},
	[0xbf] = {FORM_R_RM, 0, KIND(movsx16)},
	[0xc0] = {FORM_RM_R, BYTE | LOCK, SIZE(xadd)},
	[0xc1] = {FORM_RM_R, LOCK, SIZE(xadd)},
	[0xc3] = {FORM_RM_R, OPCODE_MEMORY | OPCODE_BARE, KIND(mov)}, /* MOVNTI */
	[0xc7] = {GROUP(group_9)},
	[0xc8 ... 0xcf] = {FORM_R, 0, SIZE(bswap)},
	[0xff] = {FORM_R_RM, END, ONE(undefined)}, /* UD0 */
};

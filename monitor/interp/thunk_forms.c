// SPDX-License-Identifier: MIT
/*
 * Which SSE, MMX and x87 instructions can run as thunks, and the memory they touch (SDM Vol 2,
 * appendix A). What is missing here is left to the processor: it also knows best what is #UD.
 */
#include "monitor/interp/thunk.h"

#define MEMORY(bytes)	  (THUNK_VALID | (bytes))
#define UNALIGNED	  MEMORY(16)
#define ALIGNED		  (MEMORY(16) | THUNK_ALIGNED)
#define STORE(bytes)	  (MEMORY(bytes) | THUNK_STORE)
#define STORE_UNALIGNED	  STORE(16)
#define STORE_ALIGNED	  (STORE(16) | THUNK_ALIGNED)
#define MMX		  (MEMORY(8) | THUNK_X87)
#define I8		  THUNK_I8
#define ONLY_MEMORY	  THUNK_NOT_REGISTER
#define ONLY_REGISTERS(f) (THUNK_VALID | THUNK_NOT_MEMORY | (f))

/* Columns: no prefix, 66, F3, F2. */
typedef uint16_t forms[4];

#define PACKED                                                                                     \
	{                                                                                          \
		ALIGNED, ALIGNED, 0, 0                                                             \
	}
#define ARITHMETIC                                                                                 \
	{                                                                                          \
		ALIGNED, ALIGNED, MEMORY(4), MEMORY(8)                                             \
	}
#define INTEGER                                                                                    \
	{                                                                                          \
		MMX, ALIGNED, 0, 0                                                                 \
	}
#define SHIFTS                                                                                     \
	{                                                                                          \
		ONLY_REGISTERS(THUNK_X87 | I8), ONLY_REGISTERS(I8), 0, 0                           \
	}
#define TO_GENERAL   THUNK_GENERAL_REG
#define FROM_GENERAL (THUNK_VALID | THUNK_BY_REX | THUNK_GENERAL_RM)

static const forms forms_0f[256] = {
	[0x10] = {UNALIGNED, UNALIGNED, MEMORY(4), MEMORY(8)},
	[0x11] = {STORE_UNALIGNED, STORE_UNALIGNED, STORE(4), STORE(8)},
	[0x12] = {MEMORY(8), MEMORY(8) | ONLY_MEMORY, 0, 0},
	[0x13] = {STORE(8) | ONLY_MEMORY, STORE(8) | ONLY_MEMORY, 0, 0},
	[0x14 ... 0x15] = PACKED,
	[0x16] = {MEMORY(8), MEMORY(8) | ONLY_MEMORY, 0, 0},
	[0x17] = {STORE(8) | ONLY_MEMORY, STORE(8) | ONLY_MEMORY, 0, 0},
	[0x28] = PACKED,
	[0x29] = {STORE_ALIGNED, STORE_ALIGNED, 0, 0},
	[0x2a] = {MMX, MMX, FROM_GENERAL, FROM_GENERAL},
	[0x2b] = {STORE_ALIGNED | ONLY_MEMORY, STORE_ALIGNED | ONLY_MEMORY, 0, 0},
	[0x2c ... 0x2d] = {MMX, ALIGNED | THUNK_X87, MEMORY(4) | TO_GENERAL,
			   MEMORY(8) | TO_GENERAL},
	[0x2e ... 0x2f] = {MEMORY(4), MEMORY(8), 0, 0},
	[0x50] = {ONLY_REGISTERS(TO_GENERAL), ONLY_REGISTERS(TO_GENERAL), 0, 0},
	[0x51] = ARITHMETIC,
	[0x52 ... 0x53] = {ALIGNED, 0, MEMORY(4), 0},
	[0x54 ... 0x57] = PACKED,
	[0x58 ... 0x59] = ARITHMETIC,
	[0x5a] = {MEMORY(8), ALIGNED, MEMORY(4), MEMORY(8)},
	[0x5b] = {ALIGNED, ALIGNED, ALIGNED, 0},
	[0x5c ... 0x5f] = ARITHMETIC,
	[0x60 ... 0x62] = {MEMORY(4) | THUNK_X87, ALIGNED, 0, 0},
	[0x63 ... 0x6b] = INTEGER,
	[0x6c ... 0x6d] = {0, ALIGNED, 0, 0},
	[0x6e] = {FROM_GENERAL | THUNK_X87, FROM_GENERAL, 0, 0},
	[0x6f] = {MMX, ALIGNED, UNALIGNED, 0},
	[0x70] = {MMX | I8, ALIGNED | I8, ALIGNED | I8, ALIGNED | I8},
	[0x71 ... 0x73] = SHIFTS,
	[0x74 ... 0x76] = INTEGER,
	[0x77] = {THUNK_VALID | THUNK_X87, 0, 0, 0},
	[0x7e] = {FROM_GENERAL | THUNK_X87 | THUNK_STORE, FROM_GENERAL | THUNK_STORE, MEMORY(8), 0},
	[0x7f] = {STORE(8) | THUNK_X87, STORE_ALIGNED, STORE_UNALIGNED, 0},
	[0xc2] = {ALIGNED | I8, ALIGNED | I8, MEMORY(4) | I8, MEMORY(8) | I8},
	[0xc4] = {MEMORY(2) | THUNK_X87 | THUNK_GENERAL_RM | I8, MEMORY(2) | THUNK_GENERAL_RM | I8,
		  0, 0},
	[0xc5] = {ONLY_REGISTERS(TO_GENERAL | THUNK_X87 | I8), ONLY_REGISTERS(TO_GENERAL | I8), 0,
		  0},
	[0xc6] = {ALIGNED | I8, ALIGNED | I8, 0, 0},
	[0xd1 ... 0xd5] = INTEGER,
	[0xd6] = {0, STORE(8), ONLY_REGISTERS(THUNK_X87), ONLY_REGISTERS(THUNK_X87)},
	[0xd7] = {ONLY_REGISTERS(TO_GENERAL | THUNK_X87), ONLY_REGISTERS(TO_GENERAL), 0, 0},
	[0xd8 ... 0xe5] = INTEGER,
	[0xe6] = {0, ALIGNED, MEMORY(8), ALIGNED},
	[0xe7] = {STORE(8) | THUNK_X87 | ONLY_MEMORY, STORE_ALIGNED | ONLY_MEMORY, 0, 0},
	[0xe8 ... 0xef] = INTEGER,
	[0xf1 ... 0xf6] = INTEGER,
	[0xf8 ... 0xfe] = INTEGER,
};

/* SSSE3, SSE4.1 and SSE4.2 are where the guest's CPUID says so; all of them or none here. */
static const forms forms_38[256] = {
	[0x00 ... 0x0b] = INTEGER,
	[0x10] = {0, ALIGNED, 0, 0},
	[0x14 ... 0x15] = {0, ALIGNED, 0, 0},
	[0x17] = {0, ALIGNED, 0, 0},
	[0x1c ... 0x1e] = INTEGER,
	[0x20] = {0, MEMORY(8), 0, 0},
	[0x21] = {0, MEMORY(4), 0, 0},
	[0x22] = {0, MEMORY(2), 0, 0},
	[0x23] = {0, MEMORY(8), 0, 0},
	[0x24] = {0, MEMORY(4), 0, 0},
	[0x25] = {0, MEMORY(8), 0, 0},
	[0x28 ... 0x29] = {0, ALIGNED, 0, 0},
	[0x2a] = {0, ALIGNED | ONLY_MEMORY, 0, 0},
	[0x2b] = {0, ALIGNED, 0, 0},
	[0x30] = {0, MEMORY(8), 0, 0},
	[0x31] = {0, MEMORY(4), 0, 0},
	[0x32] = {0, MEMORY(2), 0, 0},
	[0x33] = {0, MEMORY(8), 0, 0},
	[0x34] = {0, MEMORY(4), 0, 0},
	[0x35] = {0, MEMORY(8), 0, 0},
	[0x37 ... 0x41] = {0, ALIGNED, 0, 0},
};

static const forms forms_3a[256] = {
	[0x08 ... 0x09] = {0, ALIGNED | I8, 0, 0},
	[0x0a] = {0, MEMORY(4) | I8, 0, 0},
	[0x0b] = {0, MEMORY(8) | I8, 0, 0},
	[0x0c ... 0x0e] = {0, ALIGNED | I8, 0, 0},
	[0x0f] = {MMX | I8, ALIGNED | I8, 0, 0},
	[0x14] = {0, STORE(1) | THUNK_GENERAL_RM | I8, 0, 0},
	[0x15] = {0, STORE(2) | THUNK_GENERAL_RM | I8, 0, 0},
	[0x16] = {0, FROM_GENERAL | THUNK_STORE | I8, 0, 0},
	[0x17] = {0, STORE(4) | THUNK_GENERAL_RM | I8, 0, 0},
	[0x20] = {0, MEMORY(1) | THUNK_GENERAL_RM | I8, 0, 0},
	[0x21] = {0, MEMORY(4) | I8, 0, 0},
	[0x22] = {0, FROM_GENERAL | I8, 0, 0},
	[0x40 ... 0x42] = {0, ALIGNED | I8, 0, 0},
	[0x60 ... 0x63] = {0, UNALIGNED | I8, 0, 0},
};

/* Memory forms of D8 to DF, by the reg field. FLDENV, FSAVE and their kin are missing. */
static const uint8_t x87_memory[8][8] = {
	{4, 4, 4, 4, 4, 4, 4, 4},
	{4, 0, 4 | THUNK_STORE, 4 | THUNK_STORE, 0, 2, 0, 2 | THUNK_STORE},
	{4, 4, 4, 4, 4, 4, 4, 4},
	{4, 0, 4 | THUNK_STORE, 4 | THUNK_STORE, 0, 10, 0, 10 | THUNK_STORE},
	{8, 8, 8, 8, 8, 8, 8, 8},
	{8, 0, 8 | THUNK_STORE, 8 | THUNK_STORE, 0, 0, 0, 2 | THUNK_STORE},
	{2, 2, 2, 2, 2, 2, 2, 2},
	{2, 0, 2 | THUNK_STORE, 2 | THUNK_STORE, 10, 8, 10 | THUNK_STORE, 8 | THUNK_STORE},
};

/* Register forms, one bit for each second byte from C0 on. */
static const uint64_t x87_register[8] = {
	~0ULL,
	0xffff7f330001ffffULL,
	0x00000200ffffffffULL,
	0x00ffff0cffffffffULL,
	0xffffffff0000ffffULL,
	0x0000ffffffff00ffULL,
	0xffffffff0200ffffULL,
	0x00ffff0100000000ULL,
};

static unsigned x87_form(const struct insn *i)
{
	unsigned row = i->opcode & 7, form = 0;

	if (i->memory)
		form = x87_memory[row][i->modrm >> 3 & 7];
	else if (x87_register[row] >> (i->modrm - 0xc0) & 1)
		form = THUNK_NOT_MEMORY;
	return form ? form | THUNK_VALID | THUNK_X87 : 0;
}

/* 0F AE in memory form: FXSAVE, FXRSTOR, LDMXCSR, STMXCSR. */
static unsigned state_form(const struct insn *i)
{
	static const uint16_t by_reg[4] = {
		THUNK_VALID | THUNK_FXSAVE | THUNK_STORE,
		THUNK_VALID | THUNK_FXSAVE,
		MEMORY(4),
		STORE(4),
	};

	return i->memory && (i->modrm >> 3 & 7) < 4 ? by_reg[i->modrm >> 3 & 3] : 0;
}

/* 0F 71 to 73: shifts by an immediate, by the reg field; those of whole registers need 66. */
static bool shift_exists(const struct insn *i)
{
	unsigned reg = i->modrm >> 3 & 7;

	if (i->opcode != 0xf73)
		return reg == 2 || reg == 4 || reg == 6;
	return reg == 2 || reg == 6 || (i->prefixes & PREFIX_OPERAND && (reg == 3 || reg == 7));
}

unsigned thunk_form(const struct insn *i)
{
	unsigned column = 0, byte = i->opcode & 0xff, form = 0;

	if (i->prefixes & PREFIX_LOCK)
		return 0;
	if (i->prefixes & PREFIX_REPNE)
		column = 3;
	else if (i->prefixes & PREFIX_REP)
		column = 2;
	else if (i->prefixes & PREFIX_OPERAND)
		column = 1;
	if (i->opcode >= 0xd8 && i->opcode <= 0xdf)
		return x87_form(i);
	if (i->opcode == 0xfae)
		return column ? 0 : state_form(i);
	if (i->opcode >> 8 == 0xf)
		form = forms_0f[byte][column];
	else if (i->opcode >> 8 == 0x38)
		form = forms_38[byte][column];
	else if (i->opcode >> 8 == 0x3a)
		form = forms_3a[byte][column];
	if (i->opcode >= 0xf71 && i->opcode <= 0xf73 && !shift_exists(i))
		return 0;
	if (form & (i->memory ? THUNK_NOT_MEMORY : THUNK_NOT_REGISTER))
		return 0;
	return form;
}

bool thunk_has_modrm(unsigned opcode)
{
	return (opcode >= 0xd8 && opcode <= 0xdf) ||
	       (opcode >> 8 == 0xf && opcode != 0xf77 &&
		(opcode == 0xfae || forms_0f[opcode & 0xff][0] || forms_0f[opcode & 0xff][1] ||
		 forms_0f[opcode & 0xff][2] || forms_0f[opcode & 0xff][3]));
}

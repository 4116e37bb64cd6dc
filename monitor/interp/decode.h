/* SPDX-License-Identifier: MIT */
/* One decoded instruction, how its handler goes on to the next, and how it is decoded. */
#pragma once

#include "monitor/vcpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct insn;

/*
 * Executes one instruction and goes on to the one after it by next(); the last of a block leaves
 * RIP set and returns. A handler changes nothing before its last access to memory that can fault:
 * raise_vector() and its kin leave it on the spot.
 */
typedef void handler(struct vcpu *vcpu, const struct insn *i);

enum prefix {
	PREFIX_REP = 1 << 0,
	PREFIX_REPNE = 1 << 1,
	PREFIX_LOCK = 1 << 2,
	PREFIX_OPERAND = 1 << 3, /* 66 */
	PREFIX_ADDRESS = 1 << 4, /* 67 */
	PREFIX_REX = 1 << 5,
};

/* How the effective address is formed. */
enum addressing {
	ADDRESS_REGISTER, /* base + displacement; the latter alone where there is no base */
	ADDRESS_INDEXED,  /* the same + index * scale */
	ADDRESS_GENERAL,  /* anything: FS or GS base, 32-bit addresses; outside 64-bit mode */
};

/* Of code: 64-bit mode, or the default sizes of operands and addresses elsewhere. */
enum mode { MODE_64, MODE_32, MODE_16 };

/* NO_REGISTER: the place of one that is always 0. */
enum { NO_REGISTER = offsetof(struct vcpu, hot.none), OPCODE_INTO = 0xce };
_Static_assert(NO_REGISTER <= UINT8_MAX, "it fits into struct insn");

struct insn {
	handler *run;
	uint64_t rip;	       /* of this instruction */
	uint64_t immediate;    /* sign-extended; of a relative branch its target */
	uint64_t displacement; /* sign-extended; absolute where it is RIP-relative */

	/* Byte offsets into vcpu.gpr, so that AH is just another place. */
	uint8_t reg, rm;     /* destination and source; of a store, reg is the source */
	uint8_t base, index; /* NO_REGISTER: none */
	uint8_t scale;	     /* of the index */
	uint8_t addressing;
	uint8_t segment; /* in 64-bit mode FS, GS, or SS where a bad address means #SS; else DS */
	uint8_t size;	 /* of the operand, in bytes */
	uint8_t address_size;

	uint8_t length;
	uint8_t behind; /* instructions of the block after this one */
	uint8_t prefixes;
	uint8_t rex;
	uint8_t modrm;
	uint16_t opcode; /* 0F map: 0F00H + byte; 0F38 and 0F3A: 3800H and 3A00H + byte */
	bool memory;	 /* the r/m operand is in memory */
	bool by_cl;	 /* a shift by CL */

	uint16_t kind;	   /* of a branch: RETIRED_BRANCH and its like; else 0 */
	uint16_t form;	   /* of a thunk: thunk.h */
	const void *thunk; /* its executable copy, if it has one */
};

/* Enough for a straight run of code; a longer one goes on in the next block. */
enum { BLOCK_INSNS = 24 };

/* RIP after `i`. */
static inline uint64_t insn_next(const struct insn *i)
{
	return i->rip + i->length;
}

/* Goes on after `i`. A tail call: straight code costs one indirect jump an instruction. */
static inline void next(struct vcpu *vcpu, const struct insn *i)
{
	i++;
	i->run(vcpu, i);
}

/* Ends the block after `i`. */
static inline void leave(struct vcpu *vcpu, const struct insn *i)
{
	vcpu->rip = insn_next(i);
}

/* From bytes to struct insn (SDM Vol 2, chapter 2 and appendix A). */

/* Which bytes follow the opcode, and what they mean. Destination first. */
enum form {
	FORM_NONE,
	FORM_RM_R,
	FORM_R_RM,
	FORM_R_RM8, /* MOVZX, MOVSX: the source is a byte */
	FORM_RM,
	FORM_RM_I,  /* an immediate of the operand's size, at most 4 bytes */
	FORM_RM_I8, /* a byte, sign-extended */
	FORM_RM_1,  /* shifts */
	FORM_RM_CL,
	FORM_RM_R_I8, /* SHLD, SHRD */
	FORM_RM_R_CL,
	FORM_R_RM_I, /* IMUL */
	FORM_R_RM_I8,
	FORM_A_I, /* accumulator */
	FORM_A_O, /* accumulator, memory at an absolute offset */
	FORM_O_A,
	FORM_R,	  /* register in the opcode */
	FORM_A_R, /* XCHG */
	FORM_R_I, /* B0-BF: an immediate of full size */
	FORM_I,
	FORM_I8,
	FORM_I16,
	FORM_I16_I8, /* ENTER */
	FORM_FAR,    /* an offset of the operand's size, a selector: immediate, displacement */
	FORM_J8,
	FORM_J,
};

enum opcode_flags {
	OPCODE_BYTE = 1 << 0,	/* operands are bytes */
	OPCODE_64 = 1 << 1,	/* 64 bits without REX.W: stack and near branches */
	OPCODE_LOCK = 1 << 2,	/* LOCK may stand before its memory form */
	OPCODE_END = 1 << 3,	/* ends a block: RIP, the mode or the privilege may change */
	OPCODE_STACK = 1 << 4,	/* its address is relative to RSP whatever ModRM says */
	OPCODE_MEMORY = 1 << 5, /* #UD in register form */
	OPCODE_BARE = 1 << 6,	/* #UD with 66, F2 or F3: NP in SDM Vol 2, 3.1.1.1 */
};

/* How the handler is chosen from the row `run`. */
enum select {
	SELECT_ONE,
	SELECT_SIZE,	  /* one for each operand size */
	SELECT_KIND,	  /* sizes within kinds of operands */
	SELECT_CONDITION, /* by the low four bits of the opcode; the 17th as for SELECT_BRANCH */
	SELECT_BRANCH, /* the second outside 64-bit mode, and where the target has to be checked */
};

/* Kinds of two operands, destination first. */
enum kind {
	KIND_R_R,
	KIND_R_I,
	KIND_R_M,
	KIND_M_R,
	KIND_M_I,
	KIND_LOCK_M_R,
	KIND_LOCK_M_I,
	KINDS,
};

/* Kinds of one operand. */
enum { KIND_R, KIND_M, KIND_LOCK_M, KINDS_OF_ONE };

enum { SIZES = 4 };

struct opcode {
	uint8_t form, flags, select;
	handler *const *run;	    /* NULL: this interpreter does not know it */
	const struct opcode *group; /* eight, by the reg field of ModRM */
};

extern const struct opcode opcodes_one[256], opcodes_0f[256], opcode_crc32_or_movbe[2];
/* Where one differs from opcodes_one outside 64-bit mode, else NULL. */
const struct opcode *opcode_outside_64(uint8_t byte);

/* The handlers that an instruction gets from the decoder itself. */
handler undefined; /* #UD */
handler unknown;   /* INTERP_NATIVE_STEP */
handler too_long;  /* #GP */
handler end_of_block;

enum decode_status {
	DECODE_DONE,
	DECODE_SHORT, /* more bytes are needed than there are */
};

/*
 * Decodes the instruction at `code`, which is at `rip` in the code segment. *ends: nothing may
 * be decoded after it. An unknown instruction has a handler that says so.
 */
enum decode_status decode(const uint8_t *code, unsigned available, uint64_t rip, enum mode mode,
			  struct insn *i, bool *ends);

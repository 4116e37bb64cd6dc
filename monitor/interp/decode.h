/* SPDX-License-Identifier: MIT */
/* From bytes to struct insn (SDM Vol 2, chapter 2 and appendix A). */
#ifndef SPOOR_MONITOR_INTERP_DECODE_H
#define SPOOR_MONITOR_INTERP_DECODE_H

#include "monitor/interp/insn.h"

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
	SELECT_CONDITION, /* by the low four bits of the opcode */
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
 * Decodes the instruction at `code`, which stands at `rip` in the code segment. *ends: nothing may
 * be decoded behind it. An unknown instruction has a handler that says so.
 */
enum decode_status decode(const uint8_t *code, unsigned available, uint64_t rip, enum mode mode,
			  struct insn *i, bool *ends);

#endif

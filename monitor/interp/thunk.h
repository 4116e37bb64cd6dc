/* SPDX-License-Identifier: MIT */
/*
 * Instructions that are run rather than interpreted: SSE and x87. A thunk is the instruction with
 * its memory operand at [RDI] and its general register, if it has one, in RCX, and a RET after
 * it; the guest's x87 and SSE registers are live in the processor.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "monitor/interp/context.h"

/* The needs of an instruction around its thunk. The low five bits: the memory operand's size. */
enum thunk_form {
	THUNK_SIZE = 31,
	THUNK_STORE = 1 << 5,	    /* the memory operand is written */
	THUNK_ALIGNED = 1 << 6,	    /* #GP if it is not aligned to its size */
	THUNK_BY_REX = 1 << 7,	    /* 4 bytes, or 8 with REX.W */
	THUNK_GENERAL_REG = 1 << 8, /* ModRM.reg is a general register */
	THUNK_GENERAL_RM = 1 << 9,  /* so is ModRM.rm, in register form */
	THUNK_I8 = 1 << 10,	    /* an immediate byte follows */
	THUNK_X87 = 1 << 11,	    /* of the x87, or on MMX registers */
	THUNK_NOT_MEMORY = 1 << 12,
	THUNK_NOT_REGISTER = 1 << 13,
	THUNK_FXSAVE = 1 << 14, /* 512 bytes, aligned to 16 */
	THUNK_VALID = 1 << 15,
};

/* 0: no thunk can be made of it. `i`: decoded as far as ModRM. */
unsigned thunk_form(const struct insn *i);

/* As the decoder needs it: what an opcode without a handler is. */
enum thunk_status { THUNK_NONE, THUNK_DONE, THUNK_IMMEDIATE };
enum thunk_status thunk_decode(struct insn *i);
bool thunk_has_modrm(unsigned opcode);

/* True if `i` has been decoded as one that needs a thunk. */
bool thunk_wanted(const struct insn *i);

/* Bytes of its operand in memory. */
unsigned thunk_memory_size(const struct insn *i);

/* Writes the thunk of `i`. There must be room for it. */
void thunk_make(struct interp *interp, struct insn *i);

/* The guest's MXCSR or x87 control word may have changed outside: looks at them. */
void thunk_state_changed(struct vcpu *vcpu);

/* SPDX-License-Identifier: MIT */
/* One decoded instruction, and how its handler goes on to the next. */
#ifndef SPOOR_MONITOR_INTERP_INSN_H
#define SPOOR_MONITOR_INTERP_INSN_H

#include <stdbool.h>
#include <stdint.h>

#include "monitor/vcpu.h"

struct insn;

/*
 * Executes one instruction and goes on to the one behind it by next(); the last of a block leaves
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
	ADDRESS_REGISTER, /* base + displacement */
	ADDRESS_ABSOLUTE, /* displacement alone; RIP-relative ones too */
	ADDRESS_GENERAL, /* anything: index, FS or GS base, 32-bit addresses; outside 64-bit mode */
};

/* Of code: 64-bit mode, or the default sizes of operands and addresses elsewhere. */
enum mode { MODE_64, MODE_32, MODE_16 };

enum { NO_REGISTER = 0xff };

struct insn {
	handler *run;
	uint64_t next;	       /* RIP behind this instruction */
	uint64_t immediate;    /* sign-extended; of a relative branch its target */
	uint64_t displacement; /* sign-extended; absolute where it is RIP-relative */

	/* Byte offsets into vcpu.gpr, so that AH is just another place. */
	uint8_t reg, rm;     /* destination and source; of a store, reg is the source */
	uint8_t base, index; /* NO_REGISTER: none */
	uint8_t shift;	     /* of the index */
	uint8_t addressing;
	uint8_t segment; /* in 64-bit mode FS, GS, or SS where a bad address means #SS; else DS */
	uint8_t size;	 /* of the operand, in bytes */
	uint8_t address_size;

	uint8_t length;
	uint8_t behind; /* instructions of the block that stand behind this one */
	uint8_t prefixes;
	uint8_t rex;
	uint8_t modrm;
	uint16_t opcode; /* 0F map: 0F00H + byte; 0F38 and 0F3A: 3800H and 3A00H + byte */
	bool memory;	 /* the r/m operand is in memory */
	bool by_cl;	 /* a shift by CL */

	uint16_t form;	   /* of a thunk: thunk.h */
	const void *thunk; /* its executable copy, if it has one */
};

/* Enough for a straight run of code; a longer one goes on in the next block. */
enum { BLOCK_INSNS = 24 };

static inline uint64_t insn_rip(const struct insn *i)
{
	return i->next - i->length;
}

/* Goes on behind `i`. A tail call: straight code costs one indirect jump an instruction. */
static inline void next(struct vcpu *vcpu, const struct insn *i)
{
	i++;
	i->run(vcpu, i);
}

/* Ends the block behind `i`. */
static inline void leave(struct vcpu *vcpu, const struct insn *i)
{
	vcpu->rip = i->next;
}

#endif

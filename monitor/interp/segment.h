/* SPDX-License-Identifier: MIT */
/* Segment descriptors as IA-32e mode uses them (SDM Vol 3, 3.4 and 5.7 to 5.9). */
#pragma once

#include "monitor/interp/context.h"

enum attributes {
	TYPE_ACCESSED = 1,
	TYPE_WRITE = 2, /* of data */
	TYPE_READ = 2,	/* of code */
	TYPE_BUSY = 2,	/* of a TSS */
	TYPE_CONFORMING = 4,
	TYPE_DOWN = 4, /* of data: expands down */
	TYPE_CODE = 8,
	SEGMENT_TYPE = 15,
	SEGMENT_S = 1 << 4,
	SEGMENT_DPL = 3 << 5,
	SEGMENT_P = 1 << 7,
	SEGMENT_G = 1 << 11,
};

enum { TYPE_LDT = 2, TYPE_TSS = 9, TYPE_TSS_BUSY = 11 };

static inline unsigned dpl(const struct segment *s)
{
	return s->attributes >> 5 & 3;
}

static inline bool null_selector(uint16_t selector)
{
	return !(selector & ~3u);
}

/* A fault whose error code is `selector`. Always false, for `return refuse(...)`. */
static inline bool refuse(struct fault *fault, unsigned vector, uint16_t selector)
{
	*fault = (struct fault){
		.vector = (uint8_t)vector, .has_error = true, .error = selector & ~3u};
	return false;
}

/*
 * The functions below leave *fault when they return false, and have then changed nothing.
 */

/* Reads the descriptor of a selector that is not null, 16 bytes of it if it is a system one. */
bool read_descriptor(struct vcpu *vcpu, uint16_t selector, struct segment *s, struct fault *fault);

/* Sets type bits of the descriptor in memory: Accessed, or the TSS's Busy. */
bool mark_descriptor(struct vcpu *vcpu, const struct segment *s, uint8_t type_bits,
		     struct fault *fault);

/* A code segment for a transfer to `cpl` (JMP, CALL: the present one; RET, IRET: RPL). */
bool read_code_segment(struct vcpu *vcpu, uint16_t selector, unsigned cpl, struct segment *s,
		       struct fault *fault);

/* SS for code that will run at `cpl`. A null selector is one for 64-bit code below CPL 3. */
bool read_stack_segment(struct vcpu *vcpu, uint16_t selector, unsigned cpl, bool long_mode,
			struct segment *s, struct fault *fault);

/* MOV and POP to ES, DS, FS, GS, SS. */
bool load_segment(struct vcpu *vcpu, unsigned which, uint16_t selector, struct fault *fault);

/* Whether [offset, offset + bytes) lies within the limit. */
bool segment_covers(const struct segment *s, uint64_t offset, unsigned bytes);

struct insn;

/* Ends an instruction that has loaded it: one that loads SS holds off interrupts and #DB until the
   next has run. */
void segment_loaded(struct vcpu *vcpu, const struct insn *i, unsigned which);

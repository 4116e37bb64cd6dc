/* SPDX-License-Identifier: MIT */
/* The guest's general registers and flags, at the widths instructions use. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "monitor/vcpu.h"

enum rflags {
	FLAG_CF = 1 << 0,
	FLAG_FIXED = 1 << 1,
	FLAG_PF = 1 << 2,
	FLAG_AF = 1 << 4,
	FLAG_ZF = 1 << 6,
	FLAG_SF = 1 << 7,
	FLAG_TF = 1 << 8,
	FLAG_IF = 1 << 9,
	FLAG_DF = 1 << 10,
	FLAG_OF = 1 << 11,
	FLAG_IOPL = 3 << 12,
	FLAG_NT = 1 << 14,
	FLAG_RF = 1 << 16,
	FLAG_VM = 1 << 17,
	FLAG_AC = 1 << 18,
	FLAG_VIF = 1 << 19,
	FLAG_VIP = 1 << 20,
	FLAG_ID = 1 << 21,
	FLAG_ARITHMETIC = FLAG_CF | FLAG_PF | FLAG_AF | FLAG_ZF | FLAG_SF | FLAG_OF,
};

/* Any type may be seen through these, at any address. */
typedef uint16_t __attribute__((may_alias, aligned(1))) any16;
typedef uint32_t __attribute__((may_alias, aligned(1))) any32;
typedef uint64_t __attribute__((may_alias, aligned(1))) any64;

/* One access of exactly that width: a device may stand there. `size` should be a constant. */
static inline uint64_t get(const void *from, unsigned size)
{
	switch (size) {
	case 1:
		return *(const volatile uint8_t *)from;
	case 2:
		return *(const volatile any16 *)from;
	case 4:
		return *(const volatile any32 *)from;
	default:
		return *(const volatile any64 *)from;
	}
}

static inline void put(void *to, uint64_t value, unsigned size)
{
	switch (size) {
	case 1:
		*(volatile uint8_t *)to = (uint8_t)value;
		break;
	case 2:
		*(volatile any16 *)to = (uint16_t)value;
		break;
	case 4:
		*(volatile any32 *)to = (uint32_t)value;
		break;
	default:
		*(volatile any64 *)to = value;
		break;
	}
}

/* `place` is a byte offset into the general registers, as in struct insn. */
static inline uint64_t get_register(const struct vcpu *vcpu, unsigned place, unsigned size)
{
	const uint8_t *from = (const uint8_t *)vcpu->gpr + place;

	switch (size) {
	case 1:
		return *from;
	case 2:
		return *(const any16 *)(const void *)from;
	case 4:
		return *(const any32 *)(const void *)from;
	default:
		return *(const any64 *)(const void *)from;
	}
}

/* 32-bit results clear the upper half, 8-bit and 16-bit ones leave the rest alone. */
static inline void set_register(struct vcpu *vcpu, unsigned place, uint64_t value, unsigned size)
{
	uint8_t *to = (uint8_t *)vcpu->gpr + place;

	switch (size) {
	case 1:
		*to = (uint8_t)value;
		break;
	case 2:
		*(any16 *)(void *)to = (uint16_t)value;
		break;
	case 4:
		*(any64 *)(void *)to = (uint32_t)value;
		break;
	default:
		*(any64 *)(void *)to = value;
		break;
	}
}

static inline uint64_t low_bytes(uint64_t value, unsigned size)
{
	return size == 8 ? value : value & ((1ULL << size * 8) - 1);
}

static inline int64_t sign_extend(uint64_t value, unsigned size)
{
	unsigned unused = 64 - size * 8;

	return (int64_t)(value << unused) >> unused;
}

/* AH and AL as LAHF and SETO AL leave them: the flags of an instruction that the host executed. */
static inline void set_some_flags(struct vcpu *vcpu, uint32_t ax, uint64_t which)
{
	const uint64_t low = which & ~FLAG_OF;

	vcpu->rflags = (vcpu->rflags & ~which) | (ax >> 8 & low) | (uint64_t)(ax & 1) << 11;
}

static inline void set_flags(struct vcpu *vcpu, uint32_t ax)
{
	set_some_flags(vcpu, ax, FLAG_ARITHMETIC);
}

/* INC and DEC: the guest's CF stays. */
static inline void set_flags_but_carry(struct vcpu *vcpu, uint32_t ax)
{
	set_some_flags(vcpu, ax, FLAG_ARITHMETIC & ~FLAG_CF);
}

/* The way back: what goes into AX for ADDB $7FH, %AL and SAHF. */
static inline uint32_t saved_flags(const struct vcpu *vcpu)
{
	return (uint32_t)(vcpu->rflags & 0xff) << 8 | (vcpu->rflags >> 11 & 1);
}

/* The condition that the low four bits of Jcc, SETcc and CMOVcc encode. */
static inline bool condition(uint64_t rflags, unsigned code)
{
	uint64_t holds;

	switch (code >> 1) {
	case 0:
		holds = rflags & FLAG_OF;
		break;
	case 1:
		holds = rflags & FLAG_CF;
		break;
	case 2:
		holds = rflags & FLAG_ZF;
		break;
	case 3:
		holds = rflags & (FLAG_CF | FLAG_ZF);
		break;
	case 4:
		holds = rflags & FLAG_SF;
		break;
	case 5:
		holds = rflags & FLAG_PF;
		break;
	case 6:
		holds = (rflags ^ rflags >> 4) & FLAG_SF;
		break;
	default:
		holds = (rflags & FLAG_ZF) | ((rflags ^ rflags >> 4) & FLAG_SF);
		break;
	}
	return (holds != 0) != (code & 1);
}

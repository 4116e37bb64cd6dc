/* SPDX-License-Identifier: MIT */
/*
 * Common to the string instructions. One execution of a handler is as many iterations as fit the
 * pages they start in. RIP stays where it is until the count is used up, so that a repeated
 * instruction can be interrupted, and a fault leaves what was done before.
 */
#pragma once

#include "monitor/interp/memory.h"

enum { PREFIX_ANY_REP = PREFIX_REP | PREFIX_REPNE };

static inline unsigned address_bytes(const struct insn *i)
{
	return i->address_size;
}

/* RSI, RDI or RCX at the address size. */
static inline uint64_t string_register(const struct vcpu *vcpu, const struct insn *i, unsigned reg)
{
	return get_register(vcpu, reg * 8, address_bytes(i));
}

/* Linear addresses of an element of `size` bytes; the target is always in ES. */
uint64_t source_address(struct vcpu *vcpu, const struct insn *i, unsigned size);
uint64_t target_address(struct vcpu *vcpu, const struct insn *i, unsigned size, bool write);

/* True, having ended the instruction, if there is nothing to repeat. */
static inline bool nothing_to_do(struct vcpu *vcpu, const struct insn *i)
{
	if (!(i->prefixes & PREFIX_ANY_REP) || string_register(vcpu, i, RCX))
		return false;
	leave(vcpu, i);
	return true;
}

static inline uint64_t fit(uint64_t most, uint64_t linear, unsigned size)
{
	uint64_t elements = (PAGE - linear % PAGE) / size;

	return elements < most ? elements : most;
}

/* How many iterations may run at once from `linear` on; at least 1. */
static inline uint64_t iterations(const struct vcpu *vcpu, const struct insn *i, uint64_t linear,
				  unsigned size)
{
	uint64_t n = 1;

	if (i->prefixes & PREFIX_ANY_REP && !(vcpu->rflags & FLAG_DF) && !vcpu->interp->single &&
	    in_64_bit_mode(vcpu) && vcpu->interp->privilege != PRIVILEGE_ALIGNED)
		n = fit(string_register(vcpu, i, RCX), linear, size);
	return n ? n : 1;
}

static inline void advance(struct vcpu *vcpu, const struct insn *i, unsigned reg, uint64_t n,
			   unsigned size)
{
	uint64_t bytes = vcpu->rflags & FLAG_DF ? -(n * size) : n * size;

	set_register(vcpu, reg * 8, string_register(vcpu, i, reg) + bytes, address_bytes(i));
}

/* Counts `n` iterations; `more`: the condition of REPE and REPNE still holds. RF is 1 between two
   iterations, for the frame of a trap or an interrupt there: SDM Vol 3, 17.3.1.1. */
static inline void iterated(struct vcpu *vcpu, const struct insn *i, uint64_t n, bool more)
{
	leave(vcpu, i);
	if (!(i->prefixes & PREFIX_ANY_REP))
		return;

	uint64_t left = string_register(vcpu, i, RCX) - n;

	set_register(vcpu, RCX * 8, left, address_bytes(i));
	vcpu->rflags &= ~(uint64_t)FLAG_RF;
	if (!left || !more)
		return;
	vcpu->rip = i->rip;
	vcpu->rflags |= FLAG_RF;
}

/* SPDX-License-Identifier: MIT */
/* Guest memory by linear address. The short way is inline: one look into the software TLB. */
#pragma once

#include "monitor/interp/context.h"
#include "monitor/interp/registers.h"

/* Whether MOV to CR3 takes the four PDPTEs that `cr3` leads to, with PAE paging. */
bool pdptes_are_valid(const struct vcpu *vcpu, uint64_t cr3);

/* Walks the guest's tables, sets Accessed and Dirty. As guest_translate(), without the cache. */
bool walk(struct vcpu *vcpu, uint64_t linear, unsigned access, uint64_t *physical, uint32_t *error);

/* The long way of the functions below: canonical and alignment checks, page straddling, walk. */
const void *read_far(struct vcpu *vcpu, const struct insn *i, uint64_t linear, unsigned size);
void *write_far(struct vcpu *vcpu, const struct insn *i, uint64_t linear, unsigned size);
uint64_t address_general(struct vcpu *vcpu, const struct insn *i, bool write);
uint64_t address_offset(const struct vcpu *vcpu, const struct insn *i);
void write_watched(struct vcpu *vcpu, const void *where);
void leave_after_write(struct vcpu *vcpu, const struct insn *i, const void *where);

/*
 * `function`(vcpu, second, third, fourth) by a call that keeps all registers (memory.c): a handler,
 * which seldom goes there, then has nothing to save on its short way.
 */
#define CALL_SLOWLY(function, second, third, fourth)                                               \
	({                                                                                         \
		void *result;                                                                      \
		__asm__ volatile("call " #function "_slowly"                                       \
				 : "=a"(result)                                                    \
				 : "D"(vcpu), "S"(second), "d"(third), "c"(fourth)                 \
				 : "memory", "cc");                                                \
		result;                                                                            \
	})

/* By the page of the last byte: the access of two pages matches neither entry. */
static inline uint64_t tag_of_access(const struct vcpu *vcpu, uint64_t linear, unsigned size)
{
	return ((linear + size - 1) & ~(uint64_t)(PAGE - 1)) | vcpu->hot.generation;
}

/* Where `size` bytes at `linear` can be read; a copy where they straddle two pages. May raise. */
static inline const void *read_at(struct vcpu *vcpu, const struct insn *i, uint64_t linear,
				  unsigned size)
{
	const struct translation *t = &vcpu->hot.tlb->read[(linear / PAGE) % TRANSLATIONS];
	uint64_t tag = tag_of_access(vcpu, linear, size);

	if (__builtin_expect(t->tag == tag, 1))
		return (const void *)((uintptr_t)linear + t->delta);
	return CALL_SLOWLY(read_far, i, linear, size);
}

/*
 * Where `size` bytes at `linear`, which may be read there too, are to be written; raises before
 * anything is. Each write ends in written() or next_after_write(), and they do not nest.
 */
static inline void *write_at(struct vcpu *vcpu, const struct insn *i, uint64_t linear,
			     unsigned size)
{
	const struct translation *t = &vcpu->hot.tlb->write[(linear / PAGE) % TRANSLATIONS];
	uint64_t tag = tag_of_access(vcpu, linear, size);

	if (__builtin_expect(t->tag == tag, 1))
		return (void *)((uintptr_t)linear + t->delta);
	return CALL_SLOWLY(write_far, i, linear, size);
}

/* True if the write at `where` needs write_watched(): code of this block, or two pages. */
static inline bool is_watched(const struct vcpu *vcpu, const void *where)
{
	return (uintptr_t)where / PAGE == vcpu->hot.watched_page;
}

/* Completes a write of an instruction that ends its block. */
static inline void written(struct vcpu *vcpu, const void *where)
{
	if (__builtin_expect(is_watched(vcpu, where), 0))
		CALL_SLOWLY(write_watched, where, 0, 0);
}

/* Completes a write: what was written may have been the next instruction. */
static inline void next_after_write(struct vcpu *vcpu, const struct insn *i, const void *where)
{
	if (__builtin_expect(is_watched(vcpu, where), 0))
		leave_after_write(vcpu, i, where);
	else
		next(vcpu, i);
}

/*
 * Outside 64-bit mode, in linear.c: an offset in a segment, checked against its limit and type; a
 * stack pointer, and setting it.
 */
uint64_t segment_linear(struct vcpu *vcpu, const struct insn *i, unsigned which, uint64_t offset,
			unsigned bytes, bool write);
uint64_t stack_linear(struct vcpu *vcpu, const struct insn *i, uint64_t rsp, unsigned bytes);
void set_stack_pointer_outside_64(struct vcpu *vcpu, uint64_t rsp);

static inline bool in_64_bit_mode(const struct vcpu *vcpu)
{
	return __builtin_expect(vcpu->hot.mode == MODE_64, 1);
}

/* The linear address of `bytes` bytes of the stack at `rsp`. */
static inline uint64_t stack_address(struct vcpu *vcpu, const struct insn *i, uint64_t rsp,
				     unsigned bytes)
{
	return in_64_bit_mode(vcpu) ? rsp : stack_linear(vcpu, i, rsp, bytes);
}

static inline void set_stack_pointer(struct vcpu *vcpu, uint64_t rsp)
{
	if (in_64_bit_mode(vcpu))
		vcpu->gpr[RSP] = rsp;
	else
		set_stack_pointer_outside_64(vcpu, rsp);
}

/* Of what near branches push and pop: 64 bits in 64-bit mode, whatever the prefixes. */
static inline unsigned branch_size(const struct vcpu *vcpu, const struct insn *i)
{
	return in_64_bit_mode(vcpu) ? 8 : i->size;
}

static inline uint64_t based_address(const struct vcpu *vcpu, const struct insn *i)
{
	return get_register(vcpu, i->base, 8) + i->displacement;
}

static inline uint64_t indexed_address(const struct vcpu *vcpu, const struct insn *i)
{
	return based_address(vcpu, i) + get_register(vcpu, i->index, 8) * i->scale;
}

/* Of the operand in memory, which is to be written if `write`. */
static inline uint64_t effective_address(struct vcpu *vcpu, const struct insn *i, bool write)
{
	if (__builtin_expect(i->addressing == ADDRESS_REGISTER, 1))
		return based_address(vcpu, i);
	if (__builtin_expect(i->addressing == ADDRESS_INDEXED, 1))
		return indexed_address(vcpu, i);
	return (uint64_t)CALL_SLOWLY(address_general, i, (unsigned)write, 0);
}

static inline uint64_t load(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	return get(read_at(vcpu, i, effective_address(vcpu, i, false), size), size);
}

static inline void *operand_for_write(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	return write_at(vcpu, i, effective_address(vcpu, i, true), size);
}

/*
 * System accesses: descriptor tables, TSS, stacks of another level. Supervisor ones, unless
 * `access` says ACCESS_USER; never through the caller's escape: false leaves *fault.
 */
bool system_read(struct vcpu *vcpu, uint64_t linear, void *to, unsigned size, struct fault *fault);
bool system_write(struct vcpu *vcpu, uint64_t linear, const void *from, unsigned size,
		  unsigned access, struct fault *fault);

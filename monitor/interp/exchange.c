// SPDX-License-Identifier: MIT
/* XCHG, XADD, CMPXCHG and its 8- and 16-byte forms. */
#include "monitor/interp/template.h"

/* XCHG with memory is atomic with or without LOCK. */
#define RUN_XCHG(suffix, modifier)                                                                 \
	__asm__ volatile("xchg" suffix " %" modifier "[b], (%[at])"                                \
			 : [b] "+r"(b)                                                             \
			 : [at] "r"(at)                                                            \
			 : "memory")

TEMPLATE void xchg(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	uint64_t b = get_register(vcpu, i->memory ? i->reg : i->rm, size);

	if (i->memory) {
		struct insn locked = *i;

		locked.prefixes |= PREFIX_LOCK;
		void *at = operand_for_write(vcpu, &locked, size);

		FOR_SIZE(size, RUN_XCHG)
		set_register(vcpu, i->reg, b, size);
		next_after_write(vcpu, i, at);
		return;
	}
	set_register(vcpu, i->rm, get_register(vcpu, i->reg, size), size);
	set_register(vcpu, i->reg, b, size);
	next(vcpu, i);
}

/* 90H: with REX.B it is an exchange with R8. */
TEMPLATE void nop_or_xchg(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	if (i->rm == RAX * 8)
		next(vcpu, i);
	else
		xchg(vcpu, i, size);
}

#define RUN_XADD(suffix, modifier)                                                                 \
	if (lock)                                                                                  \
		__asm__ volatile("lock xadd" suffix " %" modifier "[b], (%[at])" SAVE_FLAGS        \
				 : [b] "+r"(b), "=&a"(ax)                                          \
				 : [at] "r"(at)                                                    \
				 : "cc", "memory");                                                \
	else                                                                                       \
		__asm__ volatile("xadd" suffix " %" modifier "[b], (%[at])" SAVE_FLAGS             \
				 : [b] "+r"(b), "=&a"(ax)                                          \
				 : [at] "r"(at)                                                    \
				 : "cc", "memory")

/* *at += b; b becomes what *at was. */
TEMPLATE uint64_t add_at(struct vcpu *vcpu, void *at, uint64_t b, bool lock, unsigned size)
{
	uint32_t ax;

	FOR_SIZE(size, RUN_XADD)
	set_flags(vcpu, ax);
	return b;
}

TEMPLATE void xadd(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	if (i->memory) {
		void *at = operand_for_write(vcpu, i, size);
		uint64_t b = get_register(vcpu, i->reg, size);

		b = add_at(vcpu, at, b, i->prefixes & PREFIX_LOCK, size);
		set_register(vcpu, i->reg, b, size);
		next_after_write(vcpu, i, at);
		return;
	}

	uint64_t a = get_register(vcpu, i->reg, size), b = get_register(vcpu, i->rm, size);

	b = add_at(vcpu, &a, b, false, size);
	set_register(vcpu, i->rm, b, size);
	set_register(vcpu, i->reg, a, size); /* last: it wins if both are the same */
	next(vcpu, i);
}

#define RUN_CMPXCHG(suffix, modifier)                                                              \
	if (lock)                                                                                  \
		__asm__ volatile("lock cmpxchg" suffix " %" modifier                               \
				 "[b], (%[at])\n\tmovq %%rax, %[seen]" SAVE_FLAGS                  \
				 : "+a"(a), [seen] "=&r"(seen)                                     \
				 : [at] "r"(at), [b] "r"(b)                                        \
				 : "cc", "memory");                                                \
	else                                                                                       \
		__asm__ volatile("cmpxchg" suffix " %" modifier                                    \
				 "[b], (%[at])\n\tmovq %%rax, %[seen]" SAVE_FLAGS                  \
				 : "+a"(a), [seen] "=&r"(seen)                                     \
				 : [at] "r"(at), [b] "r"(b)                                        \
				 : "cc", "memory")

/* The accumulator is written only if it differs: a 32-bit one keeps its upper half otherwise. */
TEMPLATE void compare_exchange(struct vcpu *vcpu, void *at, uint64_t b, bool lock, unsigned size)
{
	uint64_t a = vcpu->gpr[RAX], seen;

	FOR_SIZE(size, RUN_CMPXCHG)
	set_flags(vcpu, (uint32_t)a);
	if (!(vcpu->rflags & FLAG_ZF))
		set_register(vcpu, RAX * 8, seen, size);
}

TEMPLATE void cmpxchg(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	if (i->memory) {
		void *at = operand_for_write(vcpu, i, size);

		compare_exchange(vcpu, at, get_register(vcpu, i->reg, size),
				 i->prefixes & PREFIX_LOCK, size);
		next_after_write(vcpu, i, at);
		return;
	}

	uint64_t a = get_register(vcpu, i->reg, size), b = get_register(vcpu, i->rm, size);

	compare_exchange(vcpu, &a, b, false, size);
	if (vcpu->rflags & FLAG_ZF)
		set_register(vcpu, i->reg, a, size);
	next(vcpu, i);
}

/* CMPXCHG8B and CMPXCHG16B change ZF alone. Always locked here: nothing can tell. */
#define RUN_WIDE(mnemonic)                                                                         \
	__asm__ volatile("lock " mnemonic " (%[at])\n\tsetz %[zf]"                                 \
			 : "+a"(low), "+d"(high), [zf] "=q"(zf)                                    \
			 : [at] "r"(at), "b"(vcpu->gpr[RBX]), "c"(vcpu->gpr[RCX])                  \
			 : "cc", "memory")

void cmpxchg_wide(struct vcpu *vcpu, const struct insn *i)
{
	unsigned size = i->size == 8 ? 16 : 8;
	uint64_t address = effective_address(vcpu, i, true);
	uint64_t low = vcpu->gpr[RAX], high = vcpu->gpr[RDX];
	bool zf;

	if (size == 16 && address & 15)
		general_protection(vcpu, i);

	void *at = write_at(vcpu, i, address, size);

	if (size == 16)
		RUN_WIDE("cmpxchg16b");
	else
		RUN_WIDE("cmpxchg8b");
	vcpu->rflags = (vcpu->rflags & ~(uint64_t)FLAG_ZF) | (zf ? FLAG_ZF : 0);
	if (!zf) {
		set_register(vcpu, RAX * 8, low, size / 2);
		set_register(vcpu, RDX * 8, high, size / 2);
	}
	next_after_write(vcpu, i, at);
}

SIZED_ROW(xchg)
SIZED_ROW(nop_or_xchg)
SIZED_ROW(xadd)
SIZED_ROW(cmpxchg)

// SPDX-License-Identifier: MIT
/* INC, DEC, NEG, NOT. */
#include "monitor/interp/template.h"

typedef uint64_t operation(struct vcpu *vcpu, uint64_t a, unsigned size);
typedef void locked_operation(struct vcpu *vcpu, void *a, unsigned size);

#define OPERATION(name, keep_flags)                                                                \
	TEMPLATE uint64_t name(struct vcpu *vcpu, uint64_t a, unsigned size)                       \
	{                                                                                          \
		uint32_t ax;                                                                       \
                                                                                                   \
		FOR_SIZE(size, RUN_##name)                                                         \
		keep_flags(vcpu, ax);                                                              \
		return a;                                                                          \
	}                                                                                          \
	TEMPLATE void locked_##name(struct vcpu *vcpu, void *a, unsigned size)                     \
	{                                                                                          \
		uint32_t ax;                                                                       \
                                                                                                   \
		FOR_SIZE(size, LOCKED_##name)                                                      \
		keep_flags(vcpu, ax);                                                              \
	}
#define RUN_ONE(mnemonic, suffix, modifier)                                                        \
	__asm__(mnemonic suffix " %" modifier "[a]" SAVE_FLAGS : [a] "+r"(a), "=&a"(ax) : : "cc")
#define LOCKED_ONE(mnemonic, suffix)                                                               \
	__asm__ volatile("lock " mnemonic suffix " (%[a])" SAVE_FLAGS                              \
			 : "=&a"(ax)                                                               \
			 : [a] "r"(a)                                                              \
			 : "cc", "memory")

#define RUN_inc(suffix, modifier)    RUN_ONE("inc", suffix, modifier)
#define RUN_dec(suffix, modifier)    RUN_ONE("dec", suffix, modifier)
#define RUN_neg(suffix, modifier)    RUN_ONE("neg", suffix, modifier)
#define LOCKED_inc(suffix, modifier) LOCKED_ONE("inc", suffix)
#define LOCKED_dec(suffix, modifier) LOCKED_ONE("dec", suffix)
#define LOCKED_neg(suffix, modifier) LOCKED_ONE("neg", suffix)

OPERATION(inc, set_flags_but_carry)
OPERATION(dec, set_flags_but_carry)
OPERATION(neg, set_flags)

/* NOT leaves the flags alone. */
TEMPLATE uint64_t not(struct vcpu * vcpu, uint64_t a, unsigned size)
{
	(void)vcpu, (void)size;
	return ~a;
}

TEMPLATE void locked_not(struct vcpu *vcpu, void *a, unsigned size)
{
	(void)vcpu;
#define LOCKED_not(suffix, modifier)                                                               \
	__asm__ volatile("lock not" suffix " (%[a])" : : [a] "r"(a) : "memory")
	FOR_SIZE(size, LOCKED_not)
}

TEMPLATE void r(struct vcpu *vcpu, const struct insn *i, operation *run, unsigned size)
{
	unsigned reg = i->reg;

	set_register(vcpu, reg, run(vcpu, get_register(vcpu, reg, size), size), size);
	next(vcpu, i);
}

TEMPLATE void m(struct vcpu *vcpu, const struct insn *i, operation *run, unsigned size)
{
	void *a = operand_for_write(vcpu, i, size);

	put(a, run(vcpu, get(a, size), size), size);
	next_after_write(vcpu, i, a);
}

TEMPLATE void lock_m(struct vcpu *vcpu, const struct insn *i, locked_operation *run, unsigned size)
{
	void *a = operand_for_write(vcpu, i, size);

	run(vcpu, a, size);
	next_after_write(vcpu, i, a);
}

#define ROW(name)                                                                                  \
	HANDLERS(name, r)                                                                          \
	HANDLERS(name, m)                                                                          \
	HANDLERS(locked_##name, lock_m)                                                            \
	row_of_one run_##name = {SIZES_OF(name, r), SIZES_OF(name, m),                             \
				 SIZES_OF(locked_##name, lock_m)};

ROW(inc)
ROW(dec)
ROW(neg)
ROW(not )

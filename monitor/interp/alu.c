// SPDX-License-Identifier: MIT
/* ADD to CMP, and TEST: the host's own instruction on the guest's operands. */
#include "monitor/interp/template.h"

typedef uint64_t operation(struct vcpu *vcpu, uint64_t a, uint64_t b, unsigned size);
typedef void locked_operation(struct vcpu *vcpu, void *a, uint64_t b, unsigned size);

#define OPERATION(name)                                                                            \
	TEMPLATE uint64_t name(struct vcpu *vcpu, uint64_t a, uint64_t b, unsigned size)           \
	{                                                                                          \
		uint32_t ax;                                                                       \
                                                                                                   \
		FOR_SIZE(size, RUN_##name)                                                         \
		set_flags(vcpu, ax);                                                               \
		return a;                                                                          \
	}
#define RUN_ALU(before, mnemonic, suffix, modifier)                                                \
	__asm__(before mnemonic suffix " %" modifier "[b], %" modifier "[a]" SAVE_FLAGS            \
		: [a] "+r"(a), "=&a"(ax)                                                           \
		: [b] "r"(b), [flags] "r"(vcpu->rflags)                                            \
		: "cc")
#define CARRY_IN "btq $0, %[flags]\n\t"

#define RUN_add(suffix, modifier)  RUN_ALU("", "add", suffix, modifier)
#define RUN_or(suffix, modifier)   RUN_ALU("", "or", suffix, modifier)
#define RUN_adc(suffix, modifier)  RUN_ALU(CARRY_IN, "adc", suffix, modifier)
#define RUN_sbb(suffix, modifier)  RUN_ALU(CARRY_IN, "sbb", suffix, modifier)
#define RUN_and(suffix, modifier)  RUN_ALU("", "and", suffix, modifier)
#define RUN_sub(suffix, modifier)  RUN_ALU("", "sub", suffix, modifier)
#define RUN_xor(suffix, modifier)  RUN_ALU("", "xor", suffix, modifier)
#define RUN_cmp(suffix, modifier)  RUN_ALU("", "cmp", suffix, modifier)
#define RUN_test(suffix, modifier) RUN_ALU("", "test", suffix, modifier)

#define LOCKED_OPERATION(name)                                                                     \
	TEMPLATE void locked_##name(struct vcpu *vcpu, void *a, uint64_t b, unsigned size)         \
	{                                                                                          \
		uint32_t ax;                                                                       \
                                                                                                   \
		FOR_SIZE(size, LOCKED_##name)                                                      \
		set_flags(vcpu, ax);                                                               \
	}
#define LOCKED_ALU(before, mnemonic, suffix, modifier)                                             \
	__asm__ volatile(before "lock " mnemonic suffix " %" modifier "[b], (%[a])" SAVE_FLAGS     \
			 : "=&a"(ax)                                                               \
			 : [a] "r"(a), [b] "r"(b), [flags] "r"(vcpu->rflags)                       \
			 : "cc", "memory")

#define LOCKED_add(suffix, modifier) LOCKED_ALU("", "add", suffix, modifier)
#define LOCKED_or(suffix, modifier)  LOCKED_ALU("", "or", suffix, modifier)
#define LOCKED_adc(suffix, modifier) LOCKED_ALU(CARRY_IN, "adc", suffix, modifier)
#define LOCKED_sbb(suffix, modifier) LOCKED_ALU(CARRY_IN, "sbb", suffix, modifier)
#define LOCKED_and(suffix, modifier) LOCKED_ALU("", "and", suffix, modifier)
#define LOCKED_sub(suffix, modifier) LOCKED_ALU("", "sub", suffix, modifier)
#define LOCKED_xor(suffix, modifier) LOCKED_ALU("", "xor", suffix, modifier)

/* The kinds of operands; those of CMP and TEST write nothing back. */
TEMPLATE void r_r(struct vcpu *vcpu, const struct insn *i, operation *run, unsigned size)
{
	unsigned reg = i->reg;
	uint64_t a = get_register(vcpu, reg, size), b = get_register(vcpu, i->rm, size);

	set_register(vcpu, reg, run(vcpu, a, b, size), size);
	next(vcpu, i);
}

TEMPLATE void r_i(struct vcpu *vcpu, const struct insn *i, operation *run, unsigned size)
{
	unsigned reg = i->reg;
	uint64_t a = get_register(vcpu, reg, size);

	set_register(vcpu, reg, run(vcpu, a, i->immediate, size), size);
	next(vcpu, i);
}

TEMPLATE void r_m(struct vcpu *vcpu, const struct insn *i, operation *run, unsigned size)
{
	unsigned reg = i->reg;
	uint64_t b = load(vcpu, i, size), a = get_register(vcpu, reg, size);

	set_register(vcpu, reg, run(vcpu, a, b, size), size);
	next(vcpu, i);
}

TEMPLATE void m_r(struct vcpu *vcpu, const struct insn *i, operation *run, unsigned size)
{
	void *a = operand_for_write(vcpu, i, size);

	put(a, run(vcpu, get(a, size), get_register(vcpu, i->reg, size), size), size);
	next_after_write(vcpu, i, a);
}

TEMPLATE void m_i(struct vcpu *vcpu, const struct insn *i, operation *run, unsigned size)
{
	void *a = operand_for_write(vcpu, i, size);

	put(a, run(vcpu, get(a, size), i->immediate, size), size);
	next_after_write(vcpu, i, a);
}

/* 80 to 83 have an immediate. */
TEMPLATE void lock_m(struct vcpu *vcpu, const struct insn *i, locked_operation *run, unsigned size)
{
	bool immediate = (i->opcode & ~3u) == 0x80;
	void *a = operand_for_write(vcpu, i, size);

	run(vcpu, a, immediate ? i->immediate : get_register(vcpu, i->reg, size), size);
	next_after_write(vcpu, i, a);
}

TEMPLATE void compare_r_r(struct vcpu *vcpu, const struct insn *i, operation *run, unsigned size)
{
	run(vcpu, get_register(vcpu, i->reg, size), get_register(vcpu, i->rm, size), size);
	next(vcpu, i);
}

TEMPLATE void compare_r_i(struct vcpu *vcpu, const struct insn *i, operation *run, unsigned size)
{
	run(vcpu, get_register(vcpu, i->reg, size), i->immediate, size);
	next(vcpu, i);
}

TEMPLATE void compare_r_m(struct vcpu *vcpu, const struct insn *i, operation *run, unsigned size)
{
	uint64_t b = load(vcpu, i, size);

	run(vcpu, get_register(vcpu, i->reg, size), b, size);
	next(vcpu, i);
}

TEMPLATE void compare_m_r(struct vcpu *vcpu, const struct insn *i, operation *run, unsigned size)
{
	uint64_t a = load(vcpu, i, size);

	run(vcpu, a, get_register(vcpu, i->reg, size), size);
	next(vcpu, i);
}

TEMPLATE void compare_m_i(struct vcpu *vcpu, const struct insn *i, operation *run, unsigned size)
{
	run(vcpu, load(vcpu, i, size), i->immediate, size);
	next(vcpu, i);
}

#define ROW(name)                                                                                  \
	OPERATION(name)                                                                            \
	LOCKED_OPERATION(name)                                                                     \
	HANDLERS(name, r_r)                                                                        \
	HANDLERS(name, r_i)                                                                        \
	HANDLERS(name, r_m)                                                                        \
	HANDLERS(name, m_r)                                                                        \
	HANDLERS(name, m_i)                                                                        \
	HANDLERS(locked_##name, lock_m)                                                            \
	row_of_two run_##name = {SIZES_OF(name, r_r),                                              \
				 SIZES_OF(name, r_i),                                              \
				 SIZES_OF(name, r_m),                                              \
				 SIZES_OF(name, m_r),                                              \
				 SIZES_OF(name, m_i),                                              \
				 SIZES_OF(locked_##name, lock_m),                                  \
				 SIZES_OF(locked_##name, lock_m)};

#define COMPARE_ROW(name)                                                                          \
	OPERATION(name)                                                                            \
	HANDLERS(name, compare_r_r)                                                                \
	HANDLERS(name, compare_r_i)                                                                \
	HANDLERS(name, compare_r_m)                                                                \
	HANDLERS(name, compare_m_r)                                                                \
	HANDLERS(name, compare_m_i)                                                                \
	row_of_two run_##name = {SIZES_OF(name, compare_r_r), SIZES_OF(name, compare_r_i),         \
				 SIZES_OF(name, compare_r_m), SIZES_OF(name, compare_m_r),         \
				 SIZES_OF(name, compare_m_i)};

ROW(add)
ROW(or)
ROW(adc)
ROW(sbb)
ROW(and)
ROW(sub)
ROW(xor)
COMPARE_ROW(cmp)
COMPARE_ROW(test)

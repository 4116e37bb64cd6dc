// SPDX-License-Identifier: MIT
/* MUL, IMUL, DIV, IDIV; rotates and shifts. A division that would fault is found out before the
 * host is asked. */
#include "monitor/interp/template.h"

static uint64_t operand(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	return i->memory ? load(vcpu, i, size) : get_register(vcpu, i->reg, size);
}

/* Double-width values: AX for bytes, else rDX:rAX. */
TEMPLATE void set_wide(struct vcpu *vcpu, uint64_t high, uint64_t low, unsigned size)
{
	set_register(vcpu, RAX * 8, low, size);
	set_register(vcpu, size == 1 ? RAX * 8 + 1 : RDX * 8, high, size);
}

TEMPLATE uint64_t get_high(const struct vcpu *vcpu, unsigned size)
{
	return get_register(vcpu, size == 1 ? RAX * 8 + 1 : RDX * 8, size);
}

/* The flags come out of the host's instruction; bytes leave their result in AX. */
#define RUN_WIDE(mnemonic, suffix, modifier)                                                       \
	__asm__(mnemonic suffix " %" modifier "[b]\n\tmovq %%rax, %[low]" SAVE_FLAGS               \
		: "+a"(a), "=&d"(high), [low] "=&r"(low)                                           \
		: [b] "r"(b)                                                                       \
		: "cc")
#define RUN_mul(suffix, modifier)  RUN_WIDE("mul", suffix, modifier)
#define RUN_imul(suffix, modifier) RUN_WIDE("imul", suffix, modifier)

#define WIDE(name)                                                                                 \
	TEMPLATE void name(struct vcpu *vcpu, const struct insn *i, unsigned size)                 \
	{                                                                                          \
		uint64_t b = operand(vcpu, i, size), a = get_register(vcpu, RAX * 8, size);        \
		uint64_t high, low;                                                                \
                                                                                                   \
		FOR_SIZE(size, RUN_##name)                                                         \
		set_flags(vcpu, (uint32_t)a);                                                      \
		set_wide(vcpu, size == 1 ? low >> 8 : high, low, size);                            \
		next(vcpu, i);                                                                     \
	}

WIDE(mul)
WIDE(imul)

/* The two- and three-operand forms of IMUL. */
#define RUN_TWO(suffix, modifier)                                                                  \
	__asm__("imul" suffix " %" modifier "[b], %" modifier "[a]" SAVE_FLAGS                     \
		: [a] "+r"(a), "=&a"(ax)                                                           \
		: [b] "r"(b)                                                                       \
		: "cc")

TEMPLATE void multiply(struct vcpu *vcpu, const struct insn *i, uint64_t a, uint64_t b,
		       unsigned size)
{
	uint32_t ax;

	switch (size) {
	case 2:
		RUN_TWO("w", "w");
		break;
	case 4:
		RUN_TWO("l", "k");
		break;
	default:
		RUN_TWO("q", "q");
		break;
	}
	set_flags(vcpu, ax);
	set_register(vcpu, i->reg, a, size);
	next(vcpu, i);
}

TEMPLATE uint64_t source(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	return i->memory ? load(vcpu, i, size) : get_register(vcpu, i->rm, size);
}

TEMPLATE void imul_two(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	uint64_t b = source(vcpu, i, size);

	multiply(vcpu, i, get_register(vcpu, i->reg, size), b, size);
}

TEMPLATE void imul_three(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	multiply(vcpu, i, source(vcpu, i, size), i->immediate, size);
}

/* high:low / by, where high < by. */
TEMPLATE uint64_t divide(uint64_t high, uint64_t low, uint64_t by, unsigned size, uint64_t *rest)
{
	uint64_t quotient = low;

	if (size < 8) {
		low |= high << size * 8;
		*rest = low % by;
		return low / by;
	}
	__asm__("divq %[by]" : "+a"(quotient), "=d"(*rest) : "d"(high), [by] "r"(by) : "cc");
	return quotient;
}

TEMPLATE void div(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	uint64_t by = operand(vcpu, i, size), high = get_high(vcpu, size), rest, quotient;

	if (high >= by)
		raise_vector(vcpu, i, VECTOR_DE);
	quotient = divide(high, get_register(vcpu, RAX * 8, size), by, size, &rest);
	set_wide(vcpu, rest, quotient, size);
	next(vcpu, i);
}

/* By magnitudes; the quotient must then fit, one more below zero than above. */
TEMPLATE void idiv(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	uint64_t by = operand(vcpu, i, size), high = get_high(vcpu, size);
	uint64_t low = get_register(vcpu, RAX * 8, size), rest, quotient;
	uint64_t sign = 1ULL << (size * 8 - 1);
	bool minus = high & sign, by_minus = by & sign;

	if (minus) {
		low = low_bytes(-low, size);
		high = low_bytes(~high + !low, size);
	}
	if (by_minus)
		by = low_bytes(-by, size);
	if (high >= by)
		raise_vector(vcpu, i, VECTOR_DE);
	quotient = divide(high, low, by, size, &rest);
	if (quotient >= sign + (minus != by_minus))
		raise_vector(vcpu, i, VECTOR_DE);
	set_wide(vcpu, minus ? -rest : rest, minus != by_minus ? -quotient : quotient, size);
	next(vcpu, i);
}

SIZED_ROW(mul)
SIZED_ROW(imul)
SIZED_ROW(div)
SIZED_ROW(idiv)
SIZED_ROW_WITHOUT_BYTES(imul_two)
SIZED_ROW_WITHOUT_BYTES(imul_three)

/* Rotates, shifts and double shifts. A masked count of 0 leaves the flags alone. */
typedef uint64_t operation(struct vcpu *vcpu, uint64_t a, uint8_t count, unsigned size);

#define OPERATION(name)                                                                            \
	TEMPLATE uint64_t name(struct vcpu *vcpu, uint64_t a, uint8_t count, unsigned size)        \
	{                                                                                          \
		uint32_t ax;                                                                       \
                                                                                                   \
		FOR_SIZE(size, RUN_##name)                                                         \
		set_flags(vcpu, ax);                                                               \
		return a;                                                                          \
	}
/* The guest's flags go in, as rotates change only CF and OF: ADD makes OF, SAHF the rest. */
#define RUN_SHIFT(mnemonic, suffix, modifier)                                                      \
	__asm__("addb $0x7f, %%al\n\tsahf\n\t" mnemonic suffix " %%cl, %" modifier                 \
		"[a]" SAVE_FLAGS                                                                   \
		: [a] "+r"(a), "=&a"(ax)                                                           \
		: "1"(saved_flags(vcpu)), "c"(count)                                               \
		: "cc")

#define RUN_rol(suffix, modifier) RUN_SHIFT("rol", suffix, modifier)
#define RUN_ror(suffix, modifier) RUN_SHIFT("ror", suffix, modifier)
#define RUN_rcl(suffix, modifier) RUN_SHIFT("rcl", suffix, modifier)
#define RUN_rcr(suffix, modifier) RUN_SHIFT("rcr", suffix, modifier)
#define RUN_shl(suffix, modifier) RUN_SHIFT("shl", suffix, modifier)
#define RUN_shr(suffix, modifier) RUN_SHIFT("shr", suffix, modifier)
#define RUN_sar(suffix, modifier) RUN_SHIFT("sar", suffix, modifier)

OPERATION(rol)
OPERATION(ror)
OPERATION(rcl)
OPERATION(rcr)
OPERATION(shl)
OPERATION(shr)
OPERATION(sar)

static inline uint8_t shift_count(const struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	uint64_t count = i->by_cl ? vcpu->gpr[RCX] : i->immediate;

	return (uint8_t)(count & (size == 8 ? 63 : 31));
}

TEMPLATE void shift(struct vcpu *vcpu, const struct insn *i, operation *run, unsigned size)
{
	uint8_t count = shift_count(vcpu, i, size);

	if (i->memory) {
		void *at = operand_for_write(vcpu, i, size);
		uint64_t a = get(at, size);

		put(at, count ? run(vcpu, a, count, size) : a, size);
		next_after_write(vcpu, i, at);
		return;
	}

	uint64_t a = get_register(vcpu, i->reg, size);

	set_register(vcpu, i->reg, count ? run(vcpu, a, count, size) : a, size);
	next(vcpu, i);
}

typedef uint64_t double_operation(struct vcpu *vcpu, uint64_t a, uint64_t b, uint8_t count,
				  unsigned size);

#define DOUBLE_OPERATION(name)                                                                     \
	TEMPLATE uint64_t name(struct vcpu *vcpu, uint64_t a, uint64_t b, uint8_t count,           \
			       unsigned size)                                                      \
	{                                                                                          \
		uint32_t ax;                                                                       \
                                                                                                   \
		switch (size) {                                                                    \
		case 2:                                                                            \
			RUN_DOUBLE(#name, "w", "w");                                               \
			break;                                                                     \
		case 4:                                                                            \
			RUN_DOUBLE(#name, "l", "k");                                               \
			break;                                                                     \
		default:                                                                           \
			RUN_DOUBLE(#name, "q", "q");                                               \
			break;                                                                     \
		}                                                                                  \
		set_flags(vcpu, ax);                                                               \
		return a;                                                                          \
	}
#define RUN_DOUBLE(mnemonic, suffix, modifier)                                                     \
	__asm__(mnemonic suffix " %%cl, %" modifier "[b], %" modifier "[a]" SAVE_FLAGS             \
		: [a] "+r"(a), "=&a"(ax)                                                           \
		: [b] "r"(b), "c"(count)                                                           \
		: "cc")

DOUBLE_OPERATION(shld)
DOUBLE_OPERATION(shrd)

TEMPLATE void shift_double(struct vcpu *vcpu, const struct insn *i, double_operation *run,
			   unsigned size)
{
	uint8_t count = shift_count(vcpu, i, size);

	if (i->memory) {
		void *at = operand_for_write(vcpu, i, size);
		uint64_t a = get(at, size), b = get_register(vcpu, i->reg, size);

		put(at, count ? run(vcpu, a, b, count, size) : a, size);
		next_after_write(vcpu, i, at);
		return;
	}

	uint64_t a = get_register(vcpu, i->reg, size), b = get_register(vcpu, i->rm, size);

	set_register(vcpu, i->reg, count ? run(vcpu, a, b, count, size) : a, size);
	next(vcpu, i);
}

#define ROW(name)                                                                                  \
	HANDLERS(name, shift)                                                                      \
	row_of_sizes run_##name = {SIZES_OF(name, shift)};

ROW(rol)
ROW(ror)
ROW(rcl)
ROW(rcr)
ROW(shl)
ROW(shr)
ROW(sar)

#define DOUBLE_ROW(name)                                                                           \
	HANDLER(name, shift_double, 2)                                                             \
	HANDLER(name, shift_double, 4)                                                             \
	HANDLER(name, shift_double, 8)                                                             \
	row_of_sizes run_##name = {undefined, name##_shift_double2, name##_shift_double4,          \
				   name##_shift_double8};

DOUBLE_ROW(shld)
DOUBLE_ROW(shrd)

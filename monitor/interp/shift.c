/* SPDX-License-Identifier: MIT */
/* Rotates, shifts and double shifts. A masked count of 0 leaves the flags alone. */
#include "monitor/interp/template.h"

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

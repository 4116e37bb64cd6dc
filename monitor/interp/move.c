// SPDX-License-Identifier: MIT
/* MOV, MOVZX, MOVSX, LEA, CMOVcc, SETcc and the accumulator's sign extensions. */
#include "monitor/interp/template.h"

TEMPLATE void mov_r_r(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	set_register(vcpu, i->reg, get_register(vcpu, i->rm, size), size);
	next(vcpu, i);
}

TEMPLATE void mov_r_i(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	set_register(vcpu, i->reg, i->immediate, size);
	next(vcpu, i);
}

TEMPLATE void mov_r_m(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	set_register(vcpu, i->reg, load(vcpu, i, size), size);
	next(vcpu, i);
}

TEMPLATE void mov_m_r(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	void *at = operand_for_write(vcpu, i, size);

	put(at, get_register(vcpu, i->reg, size), size);
	next_after_write(vcpu, i, at);
}

TEMPLATE void mov_m_i(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	void *at = operand_for_write(vcpu, i, size);

	put(at, i->immediate, size);
	next_after_write(vcpu, i, at);
}

#define SIZED_ALL(name) SIZED(name, 1) SIZED(name, 2) SIZED(name, 4) SIZED(name, 8)

SIZED_ALL(mov_r_r)
SIZED_ALL(mov_r_i)
SIZED_ALL(mov_r_m)
SIZED_ALL(mov_m_r)
SIZED_ALL(mov_m_i)
row_of_two run_mov = {
	mov_r_r1, mov_r_r2, mov_r_r4, mov_r_r8, mov_r_i1, mov_r_i2, mov_r_i4,
	mov_r_i8, mov_r_m1, mov_r_m2, mov_r_m4, mov_r_m8, mov_m_r1, mov_m_r2,
	mov_m_r4, mov_m_r8, mov_m_i1, mov_m_i2, mov_m_i4, mov_m_i8,
};

/* MOVZX, MOVSX, MOVSXD: `narrow` bytes, extended to `size`. */
TEMPLATE void extend_r_r(struct vcpu *vcpu, const struct insn *i, unsigned narrow, bool sign,
			 unsigned size)
{
	uint64_t value = get_register(vcpu, i->rm, narrow);

	set_register(vcpu, i->reg, sign ? (uint64_t)sign_extend(value, narrow) : value, size);
	next(vcpu, i);
}

TEMPLATE void extend_r_m(struct vcpu *vcpu, const struct insn *i, unsigned narrow, bool sign,
			 unsigned size)
{
	uint64_t value = load(vcpu, i, narrow);

	set_register(vcpu, i->reg, sign ? (uint64_t)sign_extend(value, narrow) : value, size);
	next(vcpu, i);
}

#define EXTEND(name, kind, narrow, sign, size)                                                     \
	static void name##_##kind##size(struct vcpu *vcpu, const struct insn *i)                   \
	{                                                                                          \
		extend_##kind(vcpu, i, narrow, sign, size);                                        \
	}
#define EXTEND_ROW(name, narrow, sign)                                                             \
	EXTEND(name, r_r, narrow, sign, 2)                                                         \
	EXTEND(name, r_r, narrow, sign, 4)                                                         \
	EXTEND(name, r_r, narrow, sign, 8)                                                         \
	EXTEND(name, r_m, narrow, sign, 2)                                                         \
	EXTEND(name, r_m, narrow, sign, 4)                                                         \
	EXTEND(name, r_m, narrow, sign, 8)                                                         \
	row_of_two run_##name = {                                                                  \
		[KIND_R_R * SIZES + 1] = name##_r_r2, name##_r_r4, name##_r_r8,                    \
		[KIND_R_M * SIZES + 1] = name##_r_m2, name##_r_m4, name##_r_m8,                    \
	};

EXTEND_ROW(movzx8, 1, false)
EXTEND_ROW(movzx16, 2, false)
EXTEND_ROW(movsx8, 1, true)
EXTEND_ROW(movsx16, 2, true)

/* Without REX.W it is a plain MOV. */
EXTEND(movsxd, r_r, 4, true, 8)
EXTEND(movsxd, r_m, 4, true, 8)
row_of_two run_movsxd = {
	[KIND_R_R * SIZES + 1] = mov_r_r2, mov_r_r4, movsxd_r_r8,
	[KIND_R_M * SIZES + 1] = mov_r_m2, mov_r_m4, movsxd_r_m8,
};

/* No segment goes into it. */
static __attribute__((noinline)) void lea_general(struct vcpu *vcpu, const struct insn *i)
{
	uint64_t address = address_offset(vcpu, i);

	switch (i->size) {
	case 2:
		set_register(vcpu, i->reg, address, 2);
		break;
	case 4:
		set_register(vcpu, i->reg, address, 4);
		break;
	default:
		set_register(vcpu, i->reg, address, 8);
		break;
	}
	next(vcpu, i);
}

TEMPLATE void lea(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	if (__builtin_expect(i->addressing == ADDRESS_REGISTER, 1)) {
		set_register(vcpu, i->reg, based_address(vcpu, i), size);
	} else if (__builtin_expect(i->addressing == ADDRESS_INDEXED, 1)) {
		set_register(vcpu, i->reg, indexed_address(vcpu, i), size);
	} else {
		lea_general(vcpu, i);
		return;
	}
	next(vcpu, i);
}
SIZED_ROW_WITHOUT_BYTES(lea)

/* The source is read, and a 32-bit destination cleared above, whatever the condition. */
TEMPLATE void cmov(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	uint64_t value = i->memory ? load(vcpu, i, size) : get_register(vcpu, i->rm, size);

	if (!condition(vcpu->rflags, i->opcode & 15))
		value = get_register(vcpu, i->reg, size);
	set_register(vcpu, i->reg, value, size);
	next(vcpu, i);
}
SIZED_ROW_WITHOUT_BYTES(cmov)

void set_condition(struct vcpu *vcpu, const struct insn *i)
{
	bool holds = condition(vcpu->rflags, i->opcode & 15);

	if (i->memory) {
		void *at = operand_for_write(vcpu, i, 1);

		put(at, holds, 1);
		next_after_write(vcpu, i, at);
		return;
	}
	set_register(vcpu, i->reg, holds, 1);
	next(vcpu, i);
}

/* CBW, CWDE, CDQE */
void extend_accumulator(struct vcpu *vcpu, const struct insn *i)
{
	unsigned half = i->size / 2;

	set_register(vcpu, RAX * 8, (uint64_t)sign_extend(get_register(vcpu, RAX * 8, half), half),
		     i->size);
	next(vcpu, i);
}

/* CWD, CDQ, CQO */
void extend_into_rdx(struct vcpu *vcpu, const struct insn *i)
{
	int64_t value = sign_extend(get_register(vcpu, RAX * 8, i->size), i->size);

	set_register(vcpu, RDX * 8, (uint64_t)(value >> 63), i->size);
	next(vcpu, i);
}

void xlat(struct vcpu *vcpu, const struct insn *i)
{
	uint64_t address = low_bytes(vcpu->gpr[RBX] + (vcpu->gpr[RAX] & 0xff), i->address_size);

	if (!in_64_bit_mode(vcpu))
		address = segment_linear(vcpu, i, i->segment, address, 1, false);
	else if (i->segment == FS || i->segment == GS)
		address += vcpu->segment[i->segment].base;
	set_register(vcpu, RAX * 8, get(read_at(vcpu, i, address, 1), 1), 1);
	next(vcpu, i);
}

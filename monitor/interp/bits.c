// SPDX-License-Identifier: MIT
/* Bit tests and scans, POPCNT, BSWAP, MOVBE, CRC32. */
#include "monitor/interp/template.h"

typedef bool operation(void *at, uint64_t bit, unsigned size, bool lock);

/* `bit` is within the operand. Only CF changes. */
#define RUN_BIT(lock_prefix, mnemonic, suffix, modifier)                                           \
	__asm__ volatile(lock_prefix mnemonic suffix " %" modifier "[bit], (%[at])\n\tsetc %[cf]"  \
			 : [cf] "=q"(cf)                                                           \
			 : [at] "r"(at), [bit] "r"(bit)                                            \
			 : "cc", "memory")
#define RUN_BIT_SIZES(lock_prefix, mnemonic)                                                       \
	switch (size) {                                                                            \
	case 2:                                                                                    \
		RUN_BIT(lock_prefix, mnemonic, "w", "w");                                          \
		break;                                                                             \
	case 4:                                                                                    \
		RUN_BIT(lock_prefix, mnemonic, "l", "k");                                          \
		break;                                                                             \
	default:                                                                                   \
		RUN_BIT(lock_prefix, mnemonic, "q", "q");                                          \
		break;                                                                             \
	}
#define OPERATION(name)                                                                            \
	TEMPLATE bool name(void *at, uint64_t bit, unsigned size, bool lock)                       \
	{                                                                                          \
		bool cf;                                                                           \
                                                                                                   \
		if (lock) {                                                                        \
			RUN_BIT_SIZES("lock ", #name)                                              \
		} else {                                                                           \
			RUN_BIT_SIZES("", #name)                                                   \
		}                                                                                  \
		return cf;                                                                         \
	}

OPERATION(bts)
OPERATION(btr)
OPERATION(btc)

static void set_carry(struct vcpu *vcpu, bool cf)
{
	vcpu->rflags = (vcpu->rflags & ~(uint64_t)FLAG_CF) | cf;
}

/* A register's bit offset reaches beyond the operand, in units of its size (SDM Vol 2, BT). */
static uint64_t bit_address(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	int64_t bit = sign_extend(get_register(vcpu, i->reg, size), size);
	struct insn moved = *i;

	moved.displacement += (uint64_t)(bit >> 3 & -(int64_t)size);
	return effective_address(vcpu, &moved, true);
}

static bool by_immediate(const struct insn *i)
{
	return i->opcode == 0xfba;
}

TEMPLATE uint64_t memory_bit(struct vcpu *vcpu, const struct insn *i, unsigned size,
			     uint64_t *address)
{
	*address = by_immediate(i) ? effective_address(vcpu, i, true) : bit_address(vcpu, i, size);
	return (by_immediate(i) ? i->immediate : get_register(vcpu, i->reg, size)) & (size * 8 - 1);
}

TEMPLATE uint64_t register_bit(const struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	return (by_immediate(i) ? i->immediate : get_register(vcpu, i->rm, size)) & (size * 8 - 1);
}

TEMPLATE void change(struct vcpu *vcpu, const struct insn *i, operation *run, unsigned size)
{
	uint64_t address;

	if (i->memory) {
		uint64_t bit = memory_bit(vcpu, i, size, &address);
		void *at = write_at(vcpu, i, address, size);

		set_carry(vcpu, run(at, bit, size, i->prefixes & PREFIX_LOCK));
		next_after_write(vcpu, i, at);
		return;
	}

	uint64_t value = get_register(vcpu, i->reg, size), bit = register_bit(vcpu, i, size);

	set_carry(vcpu, run(&value, bit, size, false));
	set_register(vcpu, i->reg, value, size);
	next(vcpu, i);
}

TEMPLATE void bt(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	uint64_t value, bit, address;

	if (i->memory) {
		bit = memory_bit(vcpu, i, size, &address);
		value = get(read_at(vcpu, i, address, size), size);
	} else {
		bit = register_bit(vcpu, i, size);
		value = get_register(vcpu, i->reg, size);
	}
	set_carry(vcpu, value >> bit & 1);
	next(vcpu, i);
}

TEMPLATE uint64_t source(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	return i->memory ? load(vcpu, i, size) : get_register(vcpu, i->rm, size);
}

/* On the host, so that F3 means what it means there: TZCNT and LZCNT, or nothing. */
#define RUN_SCAN(mnemonic, suffix, modifier)                                                       \
	__asm__(mnemonic suffix " %" modifier "[b], %" modifier "[a]" SAVE_FLAGS                   \
		: [a] "+r"(a), "=&a"(ax)                                                           \
		: [b] "r"(b)                                                                       \
		: "cc")
#define SCAN(name, mnemonic)                                                                       \
	TEMPLATE uint64_t name(struct vcpu *vcpu, uint64_t a, uint64_t b, unsigned size)           \
	{                                                                                          \
		uint32_t ax;                                                                       \
                                                                                                   \
		switch (size) {                                                                    \
		case 2:                                                                            \
			RUN_SCAN(mnemonic, "w", "w");                                              \
			break;                                                                     \
		case 4:                                                                            \
			RUN_SCAN(mnemonic, "l", "k");                                              \
			break;                                                                     \
		default:                                                                           \
			RUN_SCAN(mnemonic, "q", "q");                                              \
			break;                                                                     \
		}                                                                                  \
		set_flags(vcpu, ax);                                                               \
		return a;                                                                          \
	}

SCAN(scan_forward, "bsf")
SCAN(scan_reverse, "bsr")
SCAN(count_trailing, "rep bsf")
SCAN(count_leading, "rep bsr")

/* Of 0, BSF and BSR leave the destination as it was. */
TEMPLATE void bsf(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	uint64_t b = source(vcpu, i, size), a = get_register(vcpu, i->reg, size);

	if (i->prefixes & PREFIX_REP)
		set_register(vcpu, i->reg, count_trailing(vcpu, a, b, size), size);
	else if (a = scan_forward(vcpu, a, b, size), !(vcpu->rflags & FLAG_ZF))
		set_register(vcpu, i->reg, a, size);
	next(vcpu, i);
}

TEMPLATE void bsr(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	uint64_t b = source(vcpu, i, size), a = get_register(vcpu, i->reg, size);

	if (i->prefixes & PREFIX_REP)
		set_register(vcpu, i->reg, count_leading(vcpu, a, b, size), size);
	else if (a = scan_reverse(vcpu, a, b, size), !(vcpu->rflags & FLAG_ZF))
		set_register(vcpu, i->reg, a, size);
	next(vcpu, i);
}

TEMPLATE void popcnt(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	uint64_t bits = 0;

	if (!(i->prefixes & PREFIX_REP))
		raise_vector(vcpu, i, VECTOR_UD);
	for (uint64_t b = low_bytes(source(vcpu, i, size), size); b; b &= b - 1)
		bits++;
	set_register(vcpu, i->reg, bits, size);
	vcpu->rflags = (vcpu->rflags & ~(uint64_t)FLAG_ARITHMETIC) | (bits ? 0 : FLAG_ZF);
	next(vcpu, i);
}

static uint64_t swapped(uint64_t value, unsigned size)
{
	return __builtin_bswap64(value) >> (64 - size * 8);
}

/* Of 16 bits it is undefined; 0 is what processors leave. */
TEMPLATE void bswap(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	uint64_t value = get_register(vcpu, i->reg, size);

	set_register(vcpu, i->reg, size == 2 ? 0 : swapped(value, size), size);
	next(vcpu, i);
}

static void movbe(struct vcpu *vcpu, const struct insn *i)
{
	if (!i->memory)
		raise_vector(vcpu, i, VECTOR_UD);
	if (i->opcode & 1) {
		void *at = operand_for_write(vcpu, i, i->size);

		put(at, swapped(get_register(vcpu, i->reg, i->size), i->size), i->size);
		next_after_write(vcpu, i, at);
		return;
	}
	set_register(vcpu, i->reg, swapped(load(vcpu, i, i->size), i->size), i->size);
	next(vcpu, i);
}

/* The Castagnoli polynomial, reflected. */
static void crc32(struct vcpu *vcpu, const struct insn *i)
{
	unsigned size = i->opcode & 1 ? i->size : 1;
	uint8_t rm = i->rm;
	uint64_t data;

	if (size == 1 && !i->rex && rm >= RSP * 8 && rm < R8 * 8)
		rm = (uint8_t)(rm - 4 * 8 + 1);
	data = i->memory ? load(vcpu, i, size) : get_register(vcpu, rm, size);

	uint32_t crc = (uint32_t)vcpu->gpr[i->reg / 8];

	for (unsigned n = 0; n < size * 8; n++, data >>= 1)
		crc = crc >> 1 ^ (((uint32_t)data ^ crc) & 1 ? 0x82f63b78 : 0);
	vcpu->gpr[i->reg / 8] = crc;
	next(vcpu, i);
}

void crc32_or_movbe(struct vcpu *vcpu, const struct insn *i)
{
	if (i->prefixes & PREFIX_REP)
		native_step(vcpu, i);
	if (i->prefixes & PREFIX_REPNE)
		crc32(vcpu, i);
	else
		movbe(vcpu, i);
}

#define CHANGE_ROW(name)                                                                           \
	HANDLER(name, change, 2)                                                                   \
	HANDLER(name, change, 4)                                                                   \
	HANDLER(name, change, 8)                                                                   \
	row_of_sizes run_##name = {undefined, name##_change2, name##_change4, name##_change8};

CHANGE_ROW(bts)
CHANGE_ROW(btr)
CHANGE_ROW(btc)
SIZED_ROW_WITHOUT_BYTES(bt)
SIZED_ROW_WITHOUT_BYTES(bsf)
SIZED_ROW_WITHOUT_BYTES(bsr)
SIZED_ROW_WITHOUT_BYTES(popcnt)
SIZED_ROW_WITHOUT_BYTES(bswap)

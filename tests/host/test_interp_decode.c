// SPDX-License-Identifier: MIT
/* sources: tests/framework/random.c tests/host/interp_observer.c tests/host/interp_rig.c */
/* sources: monitor/interp/?*.c lib/format.c */
/*
 * The interpreter's decoder against Zydis (Debian's libzydis-dev), which knows nothing of it. What
 * ours gives a handler has to be an instruction there too, as long, and with the same target or
 * address. What ours calls undefined has to be refused there. Each way in which the two may differ
 * is a row of `differences`.
 */
#include "tests/framework/random.h"
#include "tests/host/interp_rig.h"

#include <Zydis/Decoder.h>

#include "monitor/interp/decode.h"

enum { ALL = 10000000, RIP = 0x12340000 };

struct both {
	enum mode mode;
	const uint8_t *code;
	struct insn ours;
	bool known; /* ours has a handler that executes it */
	ZyanStatus status;
	ZydisDecodedInstruction theirs;
	ZydisDecodedOperand operand[ZYDIS_MAX_OPERAND_COUNT];
};

static bool is_in(uint16_t opcode, const uint16_t *list, unsigned count)
{
	for (unsigned n = 0; n < count; n++)
		if (list[n] == opcode)
			return true;
	return false;
}
#define IS_ONE_OF(opcode, ...)                                                                     \
	is_in(opcode, (const uint16_t[]){__VA_ARGS__},                                             \
	      sizeof((const uint16_t[]){__VA_ARGS__}) / sizeof(uint16_t))

static bool is(const char *what, const char *word)
{
	return strcmp(what, word) == 0;
}

static unsigned reg_field(const struct both *b)
{
	return b->ours.modrm >> 3 & 7;
}

static bool always_undefined(const struct both *b, const char *what)
{
	return is(what, "undefined") && IS_ONE_OF(b->ours.opcode, 0xf0b, 0xfaa, 0xfb9, 0xfff);
}

static bool no_such_segment(const struct both *b, const char *what)
{
	return is(what, "defined") && IS_ONE_OF(b->ours.opcode, 0x8c, 0x8e) &&
	       (reg_field(b) > 5 || (b->ours.opcode == 0x8e && reg_field(b) == 1));
}

static bool no_such_system_register(const struct both *b, const char *what)
{
	return is(what, "defined") && IS_ONE_OF(b->ours.opcode, 0xf20, 0xf21, 0xf22, 0xf23) &&
	       (b->ours.rex & 4 || reg_field(b) == 1 || reg_field(b) > 4);
}

static bool popcnt_without_prefix(const struct both *b, const char *what)
{
	return is(what, "defined") && b->ours.opcode == 0xfb8 && !(b->ours.prefixes & PREFIX_REP);
}

static bool crc32_or_movbe_form(const struct both *b, const char *what)
{
	return is(what, "defined") && IS_ONE_OF(b->ours.opcode, 0x38f0, 0x38f1) &&
	       (b->ours.prefixes & PREFIX_REP || !b->ours.memory);
}

static bool reserved_nop(const struct both *b, const char *what)
{
	return IS_ONE_OF(b->ours.opcode, 0xf1a, 0xf1b);
}

static bool vex(const struct both *b, const char *what)
{
	return b->mode != MODE_64 && !b->ours.memory && IS_ONE_OF(b->ours.opcode, 0xc4, 0xc5);
}

static bool left_by_handler(const struct both *b, const char *what)
{
	return is(what, "defined") &&
	       ((b->ours.opcode == 0xf01 && !b->ours.memory) ||
		(b->ours.opcode == 0xfae &&
		 b->ours.prefixes & (PREFIX_REP | PREFIX_REPNE | PREFIX_OPERAND)));
}

static bool no_base_with_rex(const struct both *b, const char *what)
{
	return is(what, "base") && b->ours.rex & 1 && b->ours.prefixes & PREFIX_ADDRESS &&
	       b->ours.base == NO_REGISTER && (b->ours.modrm & 0xc7) == 4;
}

static const struct {
	bool (*holds)(const struct both *b, const char *what);
	const char *reason;
} differences[] = {
	{always_undefined,
	 "UD0, UD1, UD2, RSM: instructions to Zydis; they raise #UD, RSM outside SMM"},
	{no_such_segment, "MOV to CS, or a segment register 6 or 7: the handler raises #UD"},
	{no_such_system_register,
	 "a control or debug register that does not exist: the handler raises #UD"},
	{popcnt_without_prefix, "0F B8 without F3: the handler raises #UD"},
	{crc32_or_movbe_form,
	 "0F 38 F0 and F1 with F3, or MOVBE of a register: left to the processor, or #UD"},
	{reserved_nop, "0F 1A and 0F 1B: a NOP without MPX (SDM Vol 2, table A-3); Zydis has MPX"},
	{vex, "C4 and C5 with a register operand outside 64-bit mode: VEX, left to the processor"},
	{left_by_handler,
	 "0F 01 with a register operand, 0F AE with a prefix: left to the processor, or #UD"},
	{no_base_with_rex,
	 "67, REX.B, and a SIB byte without base: Zydis names R13 (SDM Vol 2, table 2-5: none)"},
};
enum { DIFFERENCES = sizeof(differences) / sizeof(differences[0]) };

/* A word for the difference; NULL: they agree. */
static const char *compare_address(const struct both *b)
{
	const ZydisDecodedOperandMem *m = NULL;
	uint64_t displacement;

	for (unsigned n = 0; n < b->theirs.operand_count_visible; n++)
		if (b->operand[n].type == ZYDIS_OPERAND_TYPE_MEMORY)
			m = &b->operand[n].mem;
	if (!m || !b->ours.memory || !(b->theirs.attributes & ZYDIS_ATTRIB_HAS_MODRM))
		return NULL;
	displacement = (uint64_t)m->disp.value;
	if (m->base == ZYDIS_REGISTER_RIP || m->base == ZYDIS_REGISTER_EIP)
		displacement += insn_next(&b->ours);
	else if ((m->base == ZYDIS_REGISTER_NONE) != (b->ours.base == NO_REGISTER) ||
		 (m->base && ZydisRegisterGetId(m->base) * 8 != b->ours.base))
		return "base";
	if ((m->index == ZYDIS_REGISTER_NONE) != (b->ours.index == NO_REGISTER) ||
	    (m->index && ZydisRegisterGetId(m->index) * 8 != b->ours.index))
		return "index";
	if (m->index && m->scale != b->ours.scale)
		return "scale";
	return displacement == b->ours.displacement ? NULL : "displacement";
}

static const char *compare_target(const struct both *b)
{
	const ZydisDecodedOperand *o = &b->operand[0];
	uint64_t target;

	if (!b->theirs.operand_count_visible || o->type != ZYDIS_OPERAND_TYPE_IMMEDIATE ||
	    !o->imm.is_relative)
		return NULL;
	target = insn_next(&b->ours) + o->imm.value.u;
	if (b->mode != MODE_64)
		target = low_bytes(target, b->ours.size);
	return target == b->ours.immediate ? NULL : "target";
}

static const char *compare(const struct both *b)
{
	const char *address;

	if (!b->known)
		return b->ours.run == undefined && ZYAN_SUCCESS(b->status) ? "undefined" : NULL;
	if (!ZYAN_SUCCESS(b->status))
		return "defined";
	if (b->theirs.length != b->ours.length)
		return "length";
	if (b->ours.memory && b->theirs.address_width != b->ours.address_size * 8)
		return "address size";
	address = compare_address(b);
	return address ? address : compare_target(b);
}

static ZydisDecoder decoders[3];

static const char *decode_both(struct both *b)
{
	bool ends;

	if (decode(b->code, INSN_BYTES, RIP, b->mode, &b->ours, &ends) != DECODE_DONE)
		return "short";
	b->known = b->ours.run != undefined && b->ours.run != unknown && b->ours.run != too_long;
	b->status = ZydisDecoderDecodeFull(&decoders[b->mode], b->code, INSN_BYTES, &b->theirs,
					   b->operand);
	return compare(b);
}

/* Up to three prefixes, then every opcode of the three maps in turn with every ModRM in turn; every
   fourth instruction is random throughout. */
static void make_code(uint64_t n, uint8_t code[INSN_BYTES])
{
	static const uint8_t prefixes[] = {0x66, 0x67, 0xf2, 0xf3, 0xf0, 0x2e, 0x36,
					   0x64, 0x65, 0x48, 0x41, 0x44, 0x4f, 0x40};
	static uint64_t state;
	uint64_t words[] = {random_next(&state), random_next(&state)};
	uint64_t chance = random_next(&state);
	unsigned at = 0, opcode = (unsigned)(n / 4 % 768);

	memcpy(code, words, INSN_BYTES);
	if (n % 4 == 3)
		return;
	for (unsigned left = chance & 3; left; left--, chance >>= 8)
		code[at++] = prefixes[(chance >> 2 & 63) % sizeof(prefixes)];
	if (opcode >= 256)
		code[at++] = 0x0f;
	if (opcode >= 512)
		code[at++] = opcode & 256 ? 0x3a : 0x38;
	code[at++] = (uint8_t)opcode;
	code[at] = (uint8_t)(n / 4 / 768);
}

static void report(const struct both *b, const char *what)
{
	char text[INSN_BYTES * 3 + 1];

	for (unsigned n = 0; n < INSN_BYTES; n++)
		sprintf(text + n * 3, "%02x ", b->code[n]);
	printf("# mode %u opcode %04x /%u: %s: %s ours %u bytes, theirs %d (%x)\n", b->mode,
	       b->ours.opcode, b->ours.modrm >> 3 & 7, what, text, b->ours.length,
	       ZYAN_SUCCESS(b->status) ? b->theirs.length : -1, b->status);
}

/* Which row allows it; DIFFERENCES: none does. */
static unsigned explained(const struct both *b, const char *what)
{
	unsigned n = 0;

	while (n < DIFFERENCES && !differences[n].holds(b, what))
		n++;
	return n;
}

UNIT(as_zydis)
{
	unsigned met[DIFFERENCES] = {0}, wrong = 0, known = 0;
	uint8_t code[INSN_BYTES];
	struct both b = {.code = code};

	ZydisDecoderInit(&decoders[MODE_64], ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	ZydisDecoderInit(&decoders[MODE_32], ZYDIS_MACHINE_MODE_LEGACY_32, ZYDIS_STACK_WIDTH_32);
	ZydisDecoderInit(&decoders[MODE_16], ZYDIS_MACHINE_MODE_LEGACY_16, ZYDIS_STACK_WIDTH_16);
	for (uint64_t n = 0; n < ALL; n++) {
		const char *what;
		unsigned row;

		make_code(n, code);
		b.mode = (enum mode)(n / 7 % 3);
		what = decode_both(&b);
		known += b.known;
		if (!what)
			continue;
		row = explained(&b, what);
		if (row < DIFFERENCES)
			met[row]++;
		else if (wrong++ < 40)
			report(&b, what);
	}
	for (unsigned row = 0; row < DIFFERENCES; row++) {
		printf("# %8u %s\n", met[row], differences[row].reason);
		wrong += !met[row];
	}
	assert_int_equal(wrong, 0);
	assert_true(known > ALL / 3);
}

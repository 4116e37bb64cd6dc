// SPDX-License-Identifier: MIT
#include "monitor/interp/decode.h"

#include "monitor/interp/context.h"
#include "monitor/interp/registers.h"
#include "monitor/interp/thunk.h"

enum { REX_B = 1, REX_X = 2, REX_R = 4, REX_W = 8 };

struct reader {
	const uint8_t *code;
	unsigned at, available;
	bool too_short, too_long;
	enum mode mode;
	bool overridden; /* a prefix names the segment */
};

static uint8_t take(struct reader *r)
{
	if (r->at >= INSN_BYTES)
		r->too_long = true;
	else if (r->at >= r->available)
		r->too_short = true;
	if (r->too_long || r->too_short)
		return 0;
	return r->code[r->at++];
}

/* Little-endian, sign-extended. */
static uint64_t take_signed(struct reader *r, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned n = 0; n < bytes; n++)
		value |= (uint64_t)take(r) << n * 8;
	return (uint64_t)sign_extend(value, bytes);
}

static uint8_t take_prefixes(struct reader *r, struct insn *i)
{
	for (;;) {
		uint8_t byte = take(r);
		uint8_t rex = 0;

		switch (byte) {
		case 0x66:
			i->prefixes |= PREFIX_OPERAND;
			break;
		case 0x67:
			i->prefixes |= PREFIX_ADDRESS;
			break;
		case 0xf0:
			i->prefixes |= PREFIX_LOCK;
			break;
		case 0xf2:
			i->prefixes = (uint8_t)((i->prefixes & ~PREFIX_REP) | PREFIX_REPNE);
			break;
		case 0xf3:
			i->prefixes = (uint8_t)((i->prefixes & ~PREFIX_REPNE) | PREFIX_REP);
			break;
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
			/* ES, CS, SS, DS: ignored in 64-bit mode */
			if (r->mode != MODE_64)
				i->segment = byte >> 3 & 3;
			r->overridden = true;
			break;
		case 0x64:
			i->segment = FS;
			r->overridden = true;
			break;
		case 0x65:
			i->segment = GS;
			r->overridden = true;
			break;
		default:
			if ((byte & 0xf0) != 0x40 || r->mode != MODE_64) {
				i->prefixes |= i->rex ? PREFIX_REX : 0;
				return byte;
			}
			rex = byte;
			break;
		}
		i->rex = rex; /* one that is not last does not count */
		if (r->too_short || r->too_long)
			return 0;
	}
}

/* Where a register operand lies; of bytes, without REX, 4 to 7 are AH, CH, DH and BH. */
static uint8_t place(const struct insn *i, unsigned number, unsigned size)
{
	if (size == 1 && !i->rex && number >= 4 && number < 8)
		return (uint8_t)((number - 4) * 8 + 1);
	return (uint8_t)(number * 8);
}

static unsigned modrm_reg(const struct insn *i)
{
	return (i->modrm >> 3 & 7) | (i->rex & REX_R ? 8 : 0);
}

static unsigned modrm_rm(const struct insn *i)
{
	return (i->modrm & 7) | (i->rex & REX_B ? 8 : 0);
}

/* The SIB byte; true if there is neither base nor index but only a 32-bit displacement. */
static bool take_sib(struct reader *r, struct insn *i, unsigned mod)
{
	uint8_t sib = take(r);
	unsigned index = (sib >> 3 & 7) | (i->rex & REX_X ? 8 : 0);

	if (index != RSP) {
		i->index = (uint8_t)(index * 8);
		i->scale = (uint8_t)(1 << (sib >> 6));
	}
	if ((sib & 7) == RBP && !mod)
		return true;
	i->base = (uint8_t)(((sib & 7) | (i->rex & REX_B ? 8 : 0)) * 8);
	return false;
}

/* ModRM with 16-bit addresses (SDM Vol 2, table 2-1). */
static void take_memory_16(struct reader *r, struct insn *i)
{
	static const uint8_t bases[8] = {RBX, RBX, RBP, RBP, RSI, RDI, RBP, RBX};
	unsigned mod = i->modrm >> 6, rm = i->modrm & 7;

	i->memory = true;
	if (rm < 4) {
		i->index = (uint8_t)((rm & 1 ? RDI : RSI) * 8);
		i->scale = 1;
	}
	if (mod || rm != 6)
		i->base = (uint8_t)(bases[rm] * 8);
	if (mod == 2 || i->base == NO_REGISTER)
		i->displacement = take_signed(r, 2);
	else if (mod == 1)
		i->displacement = take_signed(r, 1);
	if (!r->overridden && i->base == RBP * 8)
		i->segment = SS;
}

/* ModRM's memory operand. RIP-relative ones become absolute once the length is known. */
static void take_memory(struct reader *r, struct insn *i, bool *rip_relative)
{
	unsigned mod = i->modrm >> 6, rm = i->modrm & 7;
	bool wide = mod == 2;

	i->memory = true;
	if (rm == RSP) {
		wide |= take_sib(r, i, mod);
	} else if (rm == RBP && !mod) {
		*rip_relative = r->mode == MODE_64;
		wide = true;
	} else {
		i->base = (uint8_t)(modrm_rm(i) * 8);
	}
	if (wide)
		i->displacement = take_signed(r, 4);
	else if (mod == 1)
		i->displacement = take_signed(r, 1);
	/* In 64-bit mode a prefix for DS makes no difference. */
	if (i->segment == DS && (!r->overridden || r->mode == MODE_64) &&
	    (i->base == RSP * 8 || i->base == RBP * 8))
		i->segment = SS;
}

static void choose_addressing(struct insn *i, enum mode mode)
{
	i->addressing = ADDRESS_REGISTER;
	if (i->segment == FS || i->segment == GS || mode != MODE_64 || i->prefixes & PREFIX_ADDRESS)
		i->addressing = ADDRESS_GENERAL;
	else if (i->index != NO_REGISTER)
		i->addressing = ADDRESS_INDEXED;
}

static bool has_modrm(unsigned form)
{
	return form >= FORM_RM_R && form <= FORM_R_RM_I8;
}

static void take_immediate(struct reader *r, struct insn *i, unsigned form)
{
	unsigned most = i->size > 4 ? 4 : i->size;

	switch (form) {
	case FORM_RM_I:
	case FORM_R_RM_I:
	case FORM_A_I:
	case FORM_I:
		i->immediate = take_signed(r, most);
		break;
	case FORM_R_I:
		i->immediate = take_signed(r, i->size);
		break;
	case FORM_RM_I8:
	case FORM_RM_R_I8:
	case FORM_R_RM_I8:
	case FORM_I8:
	case FORM_J8:
		i->immediate = take_signed(r, 1);
		break;
	case FORM_RM_1:
		i->immediate = 1;
		break;
	case FORM_I16:
		i->immediate = (uint16_t)take_signed(r, 2);
		break;
	case FORM_I16_I8:
		i->immediate = (uint16_t)take_signed(r, 2);
		i->immediate |= (take_signed(r, 1) & 0xff) << 16;
		break;
	case FORM_J:
		i->immediate = take_signed(r, r->mode == MODE_64 ? 4 : i->size);
		break;
	case FORM_FAR:
		i->immediate = low_bytes(take_signed(r, i->size), i->size);
		i->displacement = (uint16_t)take_signed(r, 2);
		break;
	case FORM_A_O:
	case FORM_O_A:
		i->displacement = low_bytes(take_signed(r, i->address_size), i->address_size);
		i->memory = true;
		break;
	default:
		break;
	}
	i->by_cl = form == FORM_RM_CL || form == FORM_RM_R_CL;
}

/* Registers into reg and rm, destination in reg unless it is memory; the kind of the operands. */
static unsigned place_operands(struct insn *i, unsigned form, uint8_t opcode)
{
	unsigned in_opcode = (opcode & 7) | (i->rex & REX_B ? 8 : 0);
	uint8_t reg = place(i, modrm_reg(i), i->size);
	uint8_t rm = place(i, modrm_rm(i), form == FORM_R_RM8 ? 1 : i->size);
	bool lock = i->prefixes & PREFIX_LOCK;

	i->reg = reg;
	i->rm = rm;
	switch (form) {
	case FORM_RM_R:
	case FORM_RM_R_I8:
	case FORM_RM_R_CL:
		if (i->memory)
			return lock ? KIND_LOCK_M_R : KIND_M_R;
		i->reg = rm;
		i->rm = reg;
		return KIND_R_R;
	case FORM_R_RM:
	case FORM_R_RM8:
	case FORM_R_RM_I:
	case FORM_R_RM_I8:
		return i->memory ? KIND_R_M : KIND_R_R;
	case FORM_RM_I:
	case FORM_RM_I8:
		i->reg = rm;
		if (i->memory)
			return lock ? KIND_LOCK_M_I : KIND_M_I;
		return KIND_R_I;
	case FORM_RM:
	case FORM_RM_1:
	case FORM_RM_CL:
		i->reg = rm;
		if (i->memory)
			return lock ? KIND_LOCK_M : KIND_M;
		return KIND_R;
	case FORM_A_I:
		i->reg = RAX * 8;
		return KIND_R_I;
	case FORM_A_O:
	case FORM_O_A:
		i->reg = RAX * 8;
		return form == FORM_A_O ? KIND_R_M : KIND_M_R;
	case FORM_R:
		i->reg = place(i, in_opcode, i->size);
		return KIND_R;
	case FORM_R_I:
		i->reg = place(i, in_opcode, i->size);
		return KIND_R_I;
	case FORM_A_R:
		i->reg = RAX * 8;
		i->rm = place(i, in_opcode, i->size);
		return KIND_R_R;
	default:
		return KIND_R;
	}
}

static unsigned operand_size(const struct insn *i, unsigned flags, enum mode mode)
{
	if (flags & OPCODE_BYTE)
		return 1;
	if (mode != MODE_64)
		return (mode == MODE_16) == !(i->prefixes & PREFIX_OPERAND) ? 2 : 4;
	if (i->rex & REX_W)
		return 8;
	if (flags & OPCODE_64)
		return i->prefixes & PREFIX_OPERAND ? 2 : 8;
	return i->prefixes & PREFIX_OPERAND ? 2 : 4;
}

static unsigned address_size(const struct insn *i, enum mode mode)
{
	if (mode == MODE_64)
		return i->prefixes & PREFIX_ADDRESS ? 4 : 8;
	return (mode == MODE_16) == !(i->prefixes & PREFIX_ADDRESS) ? 2 : 4;
}

static unsigned size_index(unsigned size)
{
	return size == 8 ? 3 : size >> 1;
}

/* True if a near branch needs no check when it is taken, unless its target is an operand. */
static bool is_plain_branch(const struct insn *i, enum mode mode)
{
	return mode == MODE_64 && canonical(i->immediate);
}

static handler *choose(const struct insn *i, const struct opcode *o, unsigned kind, enum mode mode)
{
	if (i->prefixes & PREFIX_LOCK && !(o->flags & OPCODE_LOCK && i->memory))
		return undefined;
	if (o->flags & OPCODE_MEMORY && !i->memory)
		return undefined;
	if (o->flags & OPCODE_BARE && i->prefixes & (PREFIX_OPERAND | PREFIX_REP | PREFIX_REPNE))
		return undefined;
	switch (o->select) {
	case SELECT_SIZE:
		return o->run[size_index(i->size)];
	case SELECT_KIND:
		return o->run[kind * SIZES + size_index(i->size)];
	case SELECT_CONDITION:
		return o->run[is_plain_branch(i, mode) ? i->opcode & 15 : 16];
	case SELECT_BRANCH:
		return o->run[!is_plain_branch(i, mode)];
	default:
		return *o->run;
	}
}

static const struct opcode *take_opcode(struct reader *r, struct insn *i)
{
	uint8_t byte = take_prefixes(r, i);

	i->opcode = byte;
	if (r->mode != MODE_64 && byte == 0x82)
		return &opcodes_one[0x80]; /* the same group: SDM Vol 2, table A-6 */
	if (r->mode != MODE_64 && opcode_outside_64(byte))
		return opcode_outside_64(byte);
	if (byte != 0x0f)
		return &opcodes_one[byte];
	byte = take(r);
	i->opcode = (uint16_t)(0xf00 | byte);
	if (byte == 0x38 || byte == 0x3a)
		i->opcode = (uint16_t)(byte << 8 | take(r));
	if ((i->opcode & ~1u) == 0x38f0)
		return &opcode_crc32_or_movbe[i->opcode & 1];
	return &opcodes_0f[byte];
}

static bool is_relative(const struct opcode *o)
{
	return o->form == FORM_J8 || o->form == FORM_J;
}

/* Where a relative branch leads; the operand's size bounds it outside 64-bit mode. */
static uint64_t relative_target(const struct insn *i, uint64_t next, enum mode mode)
{
	return mode == MODE_64 ? next + i->immediate : low_bytes(next + i->immediate, i->size);
}

/* MOV to and from control and debug registers: mod is ignored (SDM Vol 2, MOV). */
static bool is_mov_of_system_register(const struct insn *i)
{
	return (i->opcode & ~3u) == 0xf20;
}

/* Opcodes of one byte that branch; FFH has its own. */
static unsigned kind_of_one_byte(unsigned opcode)
{
	switch (opcode) {
	case 0xc2:
	case 0xc3:
		return RETIRED_BRANCH | RETIRED_RETURN;
	case 0xe0:
	case 0xe1:
	case 0xe2:
	case 0xe3:
		return RETIRED_BRANCH | RETIRED_CONDITIONAL;
	case 0xe8:
		return RETIRED_BRANCH | RETIRED_CALL;
	case 0xe9:
	case 0xeb:
		return RETIRED_BRANCH;
	case OPCODE_INTO:
	case 0x9a:
	case 0xca:
	case 0xcb:
	case 0xcc:
	case 0xcd:
	case 0xcf:
	case 0xea:
		return RETIRED_BRANCH | RETIRED_FAR;
	default:
		return (opcode & ~15u) == 0x70 ? RETIRED_BRANCH | RETIRED_CONDITIONAL : 0;
	}
}

static unsigned branch_kind(const struct insn *i)
{
	static const uint16_t group_5[8] = {
		[2] = RETIRED_BRANCH | RETIRED_CALL | RETIRED_INDIRECT,
		[3] = RETIRED_BRANCH | RETIRED_FAR,
		[4] = RETIRED_BRANCH | RETIRED_INDIRECT,
		[5] = RETIRED_BRANCH | RETIRED_FAR,
	};

	switch (i->opcode) {
	case 0xff:
		return group_5[i->modrm >> 3 & 7];
	case 0xf05: /* SYSCALL, SYSRET, SYSENTER, SYSEXIT */
	case 0xf07:
	case 0xf34:
	case 0xf35:
		return RETIRED_BRANCH | RETIRED_FAR;
	default:
		return (i->opcode & ~15u) == 0xf80 ? RETIRED_BRANCH | RETIRED_CONDITIONAL
						   : kind_of_one_byte(i->opcode);
	}
}

enum decode_status decode(const uint8_t *code, unsigned available, uint64_t rip, enum mode mode,
			  struct insn *i, bool *ends)
{
	struct reader r = {.code = code, .available = available, .mode = mode};
	bool rip_relative = false;

	*i = (struct insn){.base = NO_REGISTER, .index = NO_REGISTER, .segment = DS};
	*ends = true;

	const struct opcode *o = take_opcode(&r, i);
	bool escape = i->opcode > 0xfff;
	bool modrm = o->group || escape || has_modrm(o->form) || thunk_has_modrm(i->opcode);

	i->address_size = (uint8_t)address_size(i, mode);
	if (modrm) {
		i->modrm = take(&r);
		if (is_mov_of_system_register(i))
			i->modrm |= 0xc0;
		if (i->modrm < 0xc0 && i->address_size == 2)
			take_memory_16(&r, i);
		else if (i->modrm < 0xc0)
			take_memory(&r, i, &rip_relative);
	}
	if (o->group)
		o = &o->group[i->modrm >> 3 & 7];
	i->size = (uint8_t)operand_size(i, o->flags, mode);
	if (o->flags & OPCODE_STACK && mode == MODE_64)
		i->segment = i->segment == DS ? SS : i->segment;
	take_immediate(&r, i, o->form);
	if (is_relative(o))
		i->immediate = relative_target(i, rip + r.at, mode);

	unsigned kind = place_operands(i, o->form, (uint8_t)i->opcode);

	i->run = unknown;
	if (o->run) {
		i->run = choose(i, o, kind, mode);
		*ends = o->flags & OPCODE_END || i->run == undefined;
	} else {
		enum thunk_status status = thunk_decode(i);

		if (status == THUNK_IMMEDIATE)
			i->immediate = take_signed(&r, 1);
		*ends = status == THUNK_NONE;
	}
	if (r.too_long)
		i->run = too_long;
	else if (r.too_short)
		return DECODE_SHORT;
	*ends |= r.too_long;
	i->length = (uint8_t)r.at;
	i->rip = rip;
	i->kind = (uint16_t)branch_kind(i);
	if (rip_relative)
		i->displacement += insn_next(i);
	/* End the block at a backward branch: the code after a loop is rarely reached. */
	*ends |= is_relative(o) && i->immediate < insn_next(i);
	choose_addressing(i, mode);
	return DECODE_DONE;
}

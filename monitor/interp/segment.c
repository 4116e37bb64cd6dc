// SPDX-License-Identifier: MIT
/* Descriptors: loads of segment registers, TR and LDTR, the tables' registers, LAR to VERW. */
#include "monitor/interp/segment.h"

#include "monitor/interp/control.h"
#include "monitor/interp/handlers.h"
#include "monitor/interp/memory.h"

static bool descriptor_address(const struct vcpu *vcpu, uint16_t selector, unsigned bytes,
			       uint64_t *address, struct fault *fault)
{
	bool local = selector & 4;
	uint64_t base = local ? vcpu->ldtr.base : vcpu->gdtr.base;
	uint32_t limit = local ? vcpu->ldtr.limit : vcpu->gdtr.limit;
	uint32_t offset = selector & 0xfff8;

	if (local && (null_selector(vcpu->ldtr.selector) || !(vcpu->ldtr.attributes & SEGMENT_P)))
		return refuse(fault, VECTOR_GP, selector);
	if (offset + bytes - 1 > limit)
		return refuse(fault, VECTOR_GP, selector);
	*address = base + offset;
	return true;
}

bool read_descriptor(struct vcpu *vcpu, uint16_t selector, struct segment *s, struct fault *fault)
{
	uint64_t address, low, high = 0;

	if (!descriptor_address(vcpu, selector, 8, &address, fault) ||
	    !system_read(vcpu, address, &low, 8, fault))
		return false;

	/* System descriptors have 16 bytes in IA-32e mode. */
	bool system = !(low >> 40 & SEGMENT_S) && vcpu->efer & EFER_LMA;

	if (system && (!descriptor_address(vcpu, selector, 16, &address, fault) ||
		       !system_read(vcpu, address + 8, &high, 8, fault)))
		return false;
	s->selector = selector;
	s->attributes = (uint16_t)((low >> 40 & 0xff) | (low >> 44 & 0xf00));
	s->limit = (uint32_t)((low & 0xffff) | (low >> 32 & 0xf0000));
	if (s->attributes & SEGMENT_G)
		s->limit = s->limit << 12 | 0xfff;
	s->base = (low >> 16 & 0xffffff) | (low >> 32 & 0xff000000) | high << 32;
	return true;
}

bool mark_descriptor(struct vcpu *vcpu, const struct segment *s, uint8_t type_bits,
		     struct fault *fault)
{
	uint64_t address;
	uint8_t type;

	if ((s->attributes & type_bits) == type_bits)
		return true;
	if (!descriptor_address(vcpu, s->selector, 8, &address, fault) ||
	    !system_read(vcpu, address + 5, &type, 1, fault))
		return false;
	type |= type_bits;
	return system_write(vcpu, address + 5, &type, 1, 0, fault);
}

bool read_code_segment(struct vcpu *vcpu, uint16_t selector, unsigned cpl, struct segment *s,
		       struct fault *fault)
{
	if (null_selector(selector))
		return refuse(fault, VECTOR_GP, 0);
	if (!read_descriptor(vcpu, selector, s, fault))
		return false;
	if (!(s->attributes & SEGMENT_S) || !(s->attributes & TYPE_CODE))
		return refuse(fault, VECTOR_GP, selector);
	if (s->attributes & TYPE_CONFORMING ? dpl(s) > cpl : dpl(s) != cpl)
		return refuse(fault, VECTOR_GP, selector);
	if (!(s->attributes & SEGMENT_P))
		return refuse(fault, VECTOR_NP, selector);
	if (s->attributes & SEGMENT_L && s->attributes & SEGMENT_DB)
		return refuse(fault, VECTOR_GP, selector);
	if (!mark_descriptor(vcpu, s, TYPE_ACCESSED, fault))
		return false;
	s->attributes |= TYPE_ACCESSED;
	s->selector = (uint16_t)((selector & ~3u) | cpl);
	return true;
}

bool read_stack_segment(struct vcpu *vcpu, uint16_t selector, unsigned cpl, bool long_mode,
			struct segment *s, struct fault *fault)
{
	if (null_selector(selector)) {
		if (!long_mode || cpl == 3 || (selector & 3) != cpl)
			return refuse(fault, VECTOR_GP, 0);
		*s = (struct segment){.selector = selector, .attributes = (uint16_t)(cpl << 5)};
		return true;
	}
	if ((selector & 3) != cpl)
		return refuse(fault, VECTOR_GP, selector);
	if (!read_descriptor(vcpu, selector, s, fault))
		return false;
	if ((s->attributes & (SEGMENT_S | TYPE_CODE | TYPE_WRITE)) != (SEGMENT_S | TYPE_WRITE) ||
	    dpl(s) != cpl)
		return refuse(fault, VECTOR_GP, selector);
	if (!(s->attributes & SEGMENT_P))
		return refuse(fault, VECTOR_SS, selector);
	if (!mark_descriptor(vcpu, s, TYPE_ACCESSED, fault))
		return false;
	s->attributes |= TYPE_ACCESSED;
	return true;
}

bool load_segment(struct vcpu *vcpu, unsigned which, uint16_t selector, struct fault *fault)
{
	struct segment s = {.selector = selector};

	if (!(vcpu->cr0 & CR0_PE)) {
		/* Limit and attributes stay: SDM Vol 3, 9.9.2. */
		vcpu->segment[which].selector = selector;
		vcpu->segment[which].base = (uint64_t)selector << 4;
		return true;
	}
	if (which == SS) {
		if (!read_stack_segment(vcpu, selector, vcpu->cpl, in_64_bit_mode(vcpu), &s, fault))
			return false;
	} else if (!null_selector(selector)) {
		if (!read_descriptor(vcpu, selector, &s, fault))
			return false;

		bool code = s.attributes & TYPE_CODE;
		unsigned least = dpl(&s);

		if (!(s.attributes & SEGMENT_S) || (code && !(s.attributes & TYPE_READ)))
			return refuse(fault, VECTOR_GP, selector);
		if (!(code && s.attributes & TYPE_CONFORMING) &&
		    (vcpu->cpl > least || (selector & 3u) > least))
			return refuse(fault, VECTOR_GP, selector);
		if (!(s.attributes & SEGMENT_P))
			return refuse(fault, VECTOR_NP, selector);
		if (!mark_descriptor(vcpu, &s, TYPE_ACCESSED, fault))
			return false;
		s.attributes |= TYPE_ACCESSED;
	}
	vcpu->segment[which] = s;
	return true;
}

/* Instructions on the registers: SDM Vol 3, 2.4, 5.7. */

/* Of the base of a descriptor table in memory. */
static unsigned base_bytes(const struct vcpu *vcpu)
{
	return in_64_bit_mode(vcpu) ? 8 : 4;
}

static void forbid_user(struct vcpu *vcpu, const struct insn *i)
{
	if (vcpu->cr4 & CR4_UMIP)
		require_cpl0(vcpu, i);
}

static void store_table(struct vcpu *vcpu, const struct insn *i, const struct descriptor_table *t)
{
	unsigned bytes = base_bytes(vcpu);
	uint8_t *at;

	forbid_user(vcpu, i);
	at = operand_for_write(vcpu, i, 2 + bytes);
	put(at, t->limit, 2);
	put(at + 2, t->base, bytes);
	written(vcpu, at);
	leave(vcpu, i);
}

static void load_table(struct vcpu *vcpu, const struct insn *i, struct descriptor_table *t)
{
	unsigned bytes = base_bytes(vcpu);
	const uint8_t *at;
	uint64_t base;

	require_cpl0(vcpu, i);
	at = read_at(vcpu, i, effective_address(vcpu, i, false), 2 + bytes);
	base = get(at + 2, bytes);
	/* A 16-bit operand has 24 bits of the base. */
	if (bytes == 4 && i->size == 2)
		base &= 0xffffff;
	if (!canonical(base))
		general_protection(vcpu, i);
	t->limit = (uint16_t)get(at, 2);
	t->base = base;
	leave(vcpu, i);
}

/* Register forms of 0F 01: what belongs to VMX is #UD, the rest the processor's business. */
void sgdt_group(struct vcpu *vcpu, const struct insn *i)
{
	if (i->memory)
		store_table(vcpu, i, &vcpu->gdtr);
	else if (i->modrm >= 0xc1 && i->modrm <= 0xc4)
		raise_vector(vcpu, i, VECTOR_UD);
	else
		native_step(vcpu, i);
}

static void set_ac(struct vcpu *vcpu, const struct insn *i, bool ac)
{
	if (vcpu->cpl || !(vcpu->interp->cr4_allowed & CR4_SMAP))
		raise_vector(vcpu, i, VECTOR_UD);
	vcpu->rflags = (vcpu->rflags & ~(uint64_t)FLAG_AC) | (ac ? FLAG_AC : 0);
	privilege_changed(vcpu);
	leave(vcpu, i);
}

void sidt_group(struct vcpu *vcpu, const struct insn *i)
{
	if (i->memory)
		store_table(vcpu, i, &vcpu->idtr);
	else if (i->modrm == 0xca || i->modrm == 0xcb)
		set_ac(vcpu, i, i->modrm == 0xcb);
	else
		raise_vector(vcpu, i, VECTOR_UD); /* MONITOR, MWAIT: not enumerated */
}

void lgdt_group(struct vcpu *vcpu, const struct insn *i)
{
	if (i->memory)
		load_table(vcpu, i, &vcpu->gdtr);
	else if (i->modrm == 0xd0)
		xgetbv(vcpu, i);
	else
		native_step(vcpu, i);
}

void lidt_group(struct vcpu *vcpu, const struct insn *i)
{
	if (i->memory)
		load_table(vcpu, i, &vcpu->idtr);
	else
		native_step(vcpu, i);
}

static void store_selector(struct vcpu *vcpu, const struct insn *i, uint16_t selector)
{
	void *at;

	if (!i->memory) {
		set_register(vcpu, i->reg, selector, i->size);
		next(vcpu, i);
		return;
	}
	at = operand_for_write(vcpu, i, 2);
	put(at, selector, 2);
	next_after_write(vcpu, i, at);
}

static uint16_t selector_operand(struct vcpu *vcpu, const struct insn *i)
{
	return (uint16_t)(i->memory ? load(vcpu, i, 2) : get_register(vcpu, i->reg, 2));
}

void sldt(struct vcpu *vcpu, const struct insn *i)
{
	forbid_user(vcpu, i);
	store_selector(vcpu, i, vcpu->ldtr.selector);
}

void str(struct vcpu *vcpu, const struct insn *i)
{
	forbid_user(vcpu, i);
	store_selector(vcpu, i, vcpu->tr.selector);
}

/* A present system descriptor in the GDT, of one type. */
static struct segment system_segment(struct vcpu *vcpu, const struct insn *i, uint16_t selector,
				     unsigned type)
{
	struct segment s;
	struct fault fault;

	if (selector & 4)
		raise_error(vcpu, i, VECTOR_GP, selector & ~3u);
	if (!read_descriptor(vcpu, selector, &s, &fault))
		raise_fault(vcpu, i, &fault);
	if ((s.attributes & (SEGMENT_S | SEGMENT_TYPE)) != type || !canonical(s.base))
		raise_error(vcpu, i, VECTOR_GP, selector & ~3u);
	if (!(s.attributes & SEGMENT_P))
		raise_error(vcpu, i, VECTOR_NP, selector & ~3u);
	return s;
}

void lldt(struct vcpu *vcpu, const struct insn *i)
{
	uint16_t selector;

	require_cpl0(vcpu, i);
	selector = selector_operand(vcpu, i);
	if (null_selector(selector))
		vcpu->ldtr = (struct segment){.selector = selector};
	else
		vcpu->ldtr = system_segment(vcpu, i, selector, TYPE_LDT);
	leave(vcpu, i);
}

void ltr(struct vcpu *vcpu, const struct insn *i)
{
	uint16_t selector;
	struct segment s;
	struct fault fault;

	require_cpl0(vcpu, i);
	selector = selector_operand(vcpu, i);
	if (null_selector(selector))
		general_protection(vcpu, i);
	s = system_segment(vcpu, i, selector, TYPE_TSS);
	if (!mark_descriptor(vcpu, &s, TYPE_BUSY, &fault))
		raise_fault(vcpu, i, &fault);
	s.attributes |= TYPE_BUSY;
	vcpu->tr = s;
	leave(vcpu, i);
}

void mov_from_segment(struct vcpu *vcpu, const struct insn *i)
{
	unsigned which = i->modrm >> 3 & 7;

	if (which >= SEGMENTS)
		raise_vector(vcpu, i, VECTOR_UD);
	store_selector(vcpu, i, vcpu->segment[which].selector);
}

void segment_loaded(struct vcpu *vcpu, const struct insn *i, unsigned which)
{
	if (which == SS) {
		vcpu->interrupt_shadow = true;
		vcpu->interp->mov_ss = true;
		vcpu->hot.attention = true;
	}
	leave(vcpu, i);
}

void mov_to_segment(struct vcpu *vcpu, const struct insn *i)
{
	unsigned which = i->modrm >> 3 & 7;
	struct fault fault;

	if (which >= SEGMENTS || which == CS)
		raise_vector(vcpu, i, VECTOR_UD);
	if (!load_segment(vcpu, which, selector_operand(vcpu, i), &fault))
		raise_fault(vcpu, i, &fault);
	segment_loaded(vcpu, i, which);
}

static unsigned far_pointer_segment(unsigned opcode)
{
	switch (opcode) {
	case 0xc4:
		return ES;
	case 0xc5:
		return DS;
	case 0xfb2:
		return SS;
	default:
		return opcode == 0xfb4 ? FS : GS;
	}
}

/* LES, LDS, LSS, LFS, LGS */
void load_far_pointer(struct vcpu *vcpu, const struct insn *i)
{
	unsigned which = far_pointer_segment(i->opcode);

	if (!i->memory)
		native_step(vcpu, i); /* VEX has the opcodes of LES and LDS */

	uint64_t address = effective_address(vcpu, i, false);
	uint64_t offset = get(read_at(vcpu, i, address, i->size), i->size);
	uint16_t selector = (uint16_t)get(read_at(vcpu, i, address + i->size, 2), 2);
	struct fault fault;

	if (!load_segment(vcpu, which, selector, &fault))
		raise_fault(vcpu, i, &fault);
	set_register(vcpu, i->reg, offset, i->size);
	segment_loaded(vcpu, i, which);
}

/* LAR, LSL, VERR, VERW: ZF says whether the descriptor may be looked at (SDM Vol 2). */

/* Present in a table and visible from CPL and RPL; a #PF on the way is raised. */
static bool visible(struct vcpu *vcpu, const struct insn *i, uint16_t selector, struct segment *s)
{
	struct fault fault;

	if (null_selector(selector))
		return false;
	if (!read_descriptor(vcpu, selector, s, &fault)) {
		if (fault.vector == VECTOR_PF)
			raise_fault(vcpu, i, &fault);
		return false;
	}

	const uint16_t conforming = SEGMENT_S | TYPE_CODE | TYPE_CONFORMING;
	unsigned level = dpl(s);

	return (s->attributes & conforming) == conforming ||
	       (vcpu->cpl <= level && (selector & 3u) <= level);
}

static bool system_type(const struct segment *s, unsigned types)
{
	return s->attributes & SEGMENT_S || types >> (s->attributes & SEGMENT_TYPE) & 1;
}

static void set_zero(struct vcpu *vcpu, const struct insn *i, bool zf)
{
	vcpu->rflags = (vcpu->rflags & ~(uint64_t)FLAG_ZF) | (zf ? FLAG_ZF : 0);
	next(vcpu, i);
}

static uint16_t selector_at(struct vcpu *vcpu, const struct insn *i, uint8_t place)
{
	return (uint16_t)(i->memory ? load(vcpu, i, 2) : get_register(vcpu, place, 2));
}

void load_access_rights(struct vcpu *vcpu, const struct insn *i)
{
	const unsigned types = 1u << TYPE_LDT | 1u << TYPE_TSS | 1u << TYPE_TSS_BUSY | 1u << 12;
	struct segment s;
	bool zf = visible(vcpu, i, selector_at(vcpu, i, i->rm), &s) && system_type(&s, types);

	if (zf) {
		uint32_t rights = (s.attributes & 0xffu) << 8 | (s.attributes & 0xf00u) << 12;

		set_register(vcpu, i->reg, rights, i->size);
	}
	set_zero(vcpu, i, zf);
}

void load_limit(struct vcpu *vcpu, const struct insn *i)
{
	const unsigned types = 1u << TYPE_LDT | 1u << TYPE_TSS | 1u << TYPE_TSS_BUSY;
	struct segment s;
	bool zf = visible(vcpu, i, selector_at(vcpu, i, i->rm), &s) && system_type(&s, types);

	if (zf)
		set_register(vcpu, i->reg, s.limit, i->size);
	set_zero(vcpu, i, zf);
}

void verify_read(struct vcpu *vcpu, const struct insn *i)
{
	struct segment s;
	bool zf = visible(vcpu, i, selector_at(vcpu, i, i->reg), &s) && s.attributes & SEGMENT_S &&
		  (!(s.attributes & TYPE_CODE) || s.attributes & TYPE_READ);

	set_zero(vcpu, i, zf);
}

void verify_write(struct vcpu *vcpu, const struct insn *i)
{
	struct segment s;
	bool zf = visible(vcpu, i, selector_at(vcpu, i, i->reg), &s) && s.attributes & SEGMENT_S &&
		  !(s.attributes & TYPE_CODE) && s.attributes & TYPE_WRITE;

	set_zero(vcpu, i, zf);
}

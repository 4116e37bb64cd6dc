/* SPDX-License-Identifier: MIT */
/* Descriptor table registers, TR, LDTR, and loads of segment registers (SDM Vol 3, 2.4, 5.7). */
#include "lib/string.h"
#include "monitor/interp/control.h"
#include "monitor/interp/handlers.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/segment.h"

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
		vcpu->interp->attention = true;
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
		native_step(vcpu, i); /* VEX stands where LES and LDS do */

	uint64_t address = effective_address(vcpu, i, false);
	uint64_t offset = get(read_at(vcpu, i, address, i->size), i->size);
	uint16_t selector = (uint16_t)get(read_at(vcpu, i, address + i->size, 2), 2);
	struct fault fault;

	if (!load_segment(vcpu, which, selector, &fault))
		raise_fault(vcpu, i, &fault);
	set_register(vcpu, i->reg, offset, i->size);
	segment_loaded(vcpu, i, which);
}

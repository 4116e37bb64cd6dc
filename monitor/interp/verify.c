/* SPDX-License-Identifier: MIT */
/* LAR, LSL, VERR, VERW: ZF says whether the descriptor may be looked at (SDM Vol 2). */
#include "monitor/interp/handlers.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/segment.h"

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

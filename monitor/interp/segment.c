/* SPDX-License-Identifier: MIT */
#include "monitor/interp/segment.h"

#include "monitor/interp/control.h"
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

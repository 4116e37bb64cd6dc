// SPDX-License-Identifier: MIT
/* IRET and the far JMP, CALL and RET. */
#include "monitor/interp/control.h"
#include "monitor/interp/handlers.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/segment.h"

static uint64_t stack_word(struct vcpu *vcpu, const struct insn *i, uint64_t offset)
{
	uint64_t address = stack_address(vcpu, i, vcpu->gpr[RSP] + offset, i->size);

	return get(read_at(vcpu, i, address, i->size), i->size);
}

static void check_rip(struct vcpu *vcpu, const struct insn *i, const struct segment *cs,
		      uint64_t rip)
{
	bool wide = vcpu->efer & EFER_LMA && cs->attributes & SEGMENT_L;

	if (wide ? !canonical(rip) : rip > cs->limit)
		general_protection(vcpu, i);
}

/* Data segments that the outer level may not use become null (SDM Vol 2, IRET, RET). */
static void drop_segments(struct vcpu *vcpu)
{
	static const uint8_t data[] = {ES, DS, FS, GS};

	for (unsigned n = 0; n < sizeof(data); n++) {
		struct segment *s = &vcpu->segment[data[n]];
		bool conforming = (s->attributes & (TYPE_CODE | TYPE_CONFORMING)) ==
				  (TYPE_CODE | TYPE_CONFORMING);

		if (dpl(s) < vcpu->cpl && !conforming) {
			s->selector = 0;
			s->attributes = 0;
		}
	}
}

static bool real_mode(const struct vcpu *vcpu)
{
	return !(vcpu->cr0 & CR0_PE);
}

/* CS in real-address mode: limit and attributes stay. */
static struct segment real_code_segment(const struct vcpu *vcpu, uint16_t selector)
{
	struct segment cs = vcpu->segment[CS];

	cs.selector = selector;
	cs.base = (uint64_t)selector << 4;
	return cs;
}

static void go(struct vcpu *vcpu, const struct insn *i, const struct segment *cs, uint64_t rip)
{
	unsigned from_cpl = vcpu->cpl;
	uint64_t from = code_linear(vcpu->interp, i->rip);

	vcpu->segment[CS] = *cs;
	if (!real_mode(vcpu))
		vcpu->cpl = cs->selector & 3;
	vcpu->rip = rip;
	if (vcpu->cpl > from_cpl)
		drop_segments(vcpu);
	privilege_changed(vcpu);
	branch_taken(vcpu, from, code_linear(vcpu->interp, rip), from_cpl, vcpu->cpl);
}

/* The part of IRET and RET that fetches the target; `stack` only if it is loaded too. */
static void read_return(struct vcpu *vcpu, const struct insn *i, uint16_t selector, uint64_t rip,
			struct segment *cs)
{
	struct fault fault;

	if (real_mode(vcpu)) {
		*cs = real_code_segment(vcpu, selector);
		check_rip(vcpu, i, cs, rip);
		return;
	}
	if (!null_selector(selector) && (selector & 3u) < vcpu->cpl)
		raise_error(vcpu, i, VECTOR_GP, selector & ~3u);
	if (!read_code_segment(vcpu, selector, selector & 3, cs, &fault))
		raise_fault(vcpu, i, &fault);
	check_rip(vcpu, i, cs, rip);
}

static uint64_t returned_flags(const struct vcpu *vcpu, uint64_t value, unsigned size)
{
	uint64_t mask = FLAG_ARITHMETIC | FLAG_TF | FLAG_DF | FLAG_NT;

	if (size > 2)
		mask |= FLAG_RF | FLAG_AC | FLAG_ID;
	if (vcpu->cpl <= (vcpu->rflags & FLAG_IOPL) >> 12)
		mask |= FLAG_IF;
	if (!vcpu->cpl)
		mask |= FLAG_IOPL | FLAG_VIF | FLAG_VIP;
	return (vcpu->rflags & ~mask) | (value & mask);
}

void iret(struct vcpu *vcpu, const struct insn *i)
{
	struct segment cs, ss;
	struct fault fault;
	unsigned size = i->size;
	uint64_t old = vcpu->rflags;

	/* Even one that faults ends the blocking of NMIs (SDM Vol 3, 6.7.1 and 25.3). */
	vcpu->nmi_blocked = false;
	vcpu->hot.attention = true;
	if (vcpu->rflags & FLAG_NT && vcpu->efer & EFER_LMA)
		general_protection(vcpu, i);
	if (vcpu->rflags & FLAG_NT && !real_mode(vcpu))
		platform_stop("returns to another task are not provided while branches are traced");

	uint64_t rip = stack_word(vcpu, i, 0);
	uint16_t selector = (uint16_t)stack_word(vcpu, i, size);
	uint64_t rflags = stack_word(vcpu, i, 2 * size);
	uint64_t rsp = vcpu->gpr[RSP] + 3 * size;

	if (rflags & FLAG_VM && size == 4 && !vcpu->cpl && !(vcpu->efer & EFER_LMA))
		platform_stop("virtual-8086 mode is not provided while branches are traced");
	read_return(vcpu, i, selector, rip, &cs);
	/* In 64-bit mode always. */
	if (in_64_bit_mode(vcpu) || (!real_mode(vcpu) && (selector & 3) > vcpu->cpl)) {
		uint16_t stack = (uint16_t)stack_word(vcpu, i, 4 * size);

		rsp = stack_word(vcpu, i, 3 * size);
		if (!read_stack_segment(vcpu, stack, selector & 3, cs.attributes & SEGMENT_L, &ss,
					&fault))
			raise_fault(vcpu, i, &fault);
		vcpu->segment[SS] = ss;
	}
	vcpu->rflags = returned_flags(vcpu, rflags, size);
	set_stack_pointer(vcpu, rsp);
	vcpu->interp->poll |= vcpu->rflags & ~old & FLAG_IF;
	go(vcpu, i, &cs, rip);
}

void far_ret(struct vcpu *vcpu, const struct insn *i)
{
	struct segment cs, ss;
	struct fault fault;
	unsigned size = i->size;
	uint64_t rip = stack_word(vcpu, i, 0);
	uint16_t selector = (uint16_t)stack_word(vcpu, i, size);
	uint64_t rsp = vcpu->gpr[RSP] + 2 * size + i->immediate;

	read_return(vcpu, i, selector, rip, &cs);
	if (!real_mode(vcpu) && (selector & 3) > vcpu->cpl) {
		uint16_t stack = (uint16_t)stack_word(vcpu, i, 3 * size + i->immediate);

		rsp = stack_word(vcpu, i, 2 * size + i->immediate) + i->immediate;
		if (!read_stack_segment(vcpu, stack, selector & 3, cs.attributes & SEGMENT_L, &ss,
					&fault))
			raise_fault(vcpu, i, &fault);
		vcpu->segment[SS] = ss;
	}
	set_stack_pointer(vcpu, rsp);
	go(vcpu, i, &cs, rip);
}

/* Call gates and tasks. Whatever else is no segment of code or data is #GP anyway. */
static void check_system_descriptor(struct vcpu *vcpu, const struct insn *i, uint16_t selector,
				    unsigned type)
{
	const unsigned in_ia32e = 1u << 12,
		       elsewhere = in_ia32e | 1u << 1 | 1u << 4 | 1u << 5 | 1u << TYPE_TSS;

	if ((vcpu->efer & EFER_LMA ? in_ia32e : elsewhere) >> type & 1)
		platform_stop("call gates and tasks are not provided while branches are traced");
	raise_error(vcpu, i, VECTOR_GP, selector & ~3u);
}

/* The operand of a far JMP or CALL: offset, then selector. */
static uint64_t read_target(struct vcpu *vcpu, const struct insn *i, struct segment *cs)
{
	struct fault fault;
	uint64_t rip = i->immediate;
	uint16_t selector = (uint16_t)i->displacement;

	if (i->memory) {
		uint64_t address = effective_address(vcpu, i, false);

		rip = get(read_at(vcpu, i, address, i->size), i->size);
		selector = (uint16_t)get(read_at(vcpu, i, address + i->size, 2), 2);
	}
	if (real_mode(vcpu)) {
		*cs = real_code_segment(vcpu, selector);
		check_rip(vcpu, i, cs, rip);
		return rip;
	}
	if (null_selector(selector))
		general_protection(vcpu, i);
	if (!read_descriptor(vcpu, selector, cs, &fault))
		raise_fault(vcpu, i, &fault);
	if (!(cs->attributes & SEGMENT_S))
		check_system_descriptor(vcpu, i, selector, cs->attributes & SEGMENT_TYPE);
	if (!(cs->attributes & TYPE_CONFORMING) && (selector & 3u) > vcpu->cpl)
		raise_error(vcpu, i, VECTOR_GP, selector & ~3u);
	if (!read_code_segment(vcpu, selector, vcpu->cpl, cs, &fault))
		raise_fault(vcpu, i, &fault);
	check_rip(vcpu, i, cs, rip);
	return rip;
}

void far_jmp(struct vcpu *vcpu, const struct insn *i)
{
	struct segment cs;
	uint64_t rip = read_target(vcpu, i, &cs);

	go(vcpu, i, &cs, rip);
}

void far_call(struct vcpu *vcpu, const struct insn *i)
{
	struct segment cs;
	struct insn stack = *i;
	unsigned size = i->size;
	uint64_t rip = read_target(vcpu, i, &cs);
	uint64_t rsp = vcpu->gpr[RSP] - 2 * size;

	stack.segment = SS;

	uint8_t *at = write_at(vcpu, &stack, stack_address(vcpu, &stack, rsp, 2 * size), 2 * size);

	put(at, insn_next(i), size);
	put(at + size, vcpu->segment[CS].selector, size);
	written(vcpu, at);
	set_stack_pointer(vcpu, rsp);
	go(vcpu, i, &cs, rip);
}

/* SPDX-License-Identifier: MIT */
/* IRET and the far JMP, CALL and RET of 64-bit mode. */
#include "monitor/interp/control.h"
#include "monitor/interp/handlers.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/segment.h"

static uint64_t stack_word(struct vcpu *vcpu, const struct insn *i, uint64_t offset)
{
	return get(read_at(vcpu, i, vcpu->gpr[RSP] + offset, i->size), i->size);
}

static void check_rip(struct vcpu *vcpu, const struct insn *i, const struct segment *cs,
		      uint64_t rip)
{
	if (cs->attributes & SEGMENT_L ? !canonical(rip) : rip > cs->limit)
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

static void go(struct vcpu *vcpu, const struct insn *i, const struct segment *cs, uint64_t rip)
{
	unsigned from_cpl = vcpu->cpl;

	vcpu->segment[CS] = *cs;
	vcpu->cpl = cs->selector & 3;
	vcpu->rip = rip;
	if (vcpu->cpl > from_cpl)
		drop_segments(vcpu);
	privilege_changed(vcpu);
	branch_taken(vcpu, insn_rip(i), rip, from_cpl, vcpu->cpl);
}

/* The part of IRET and RET that fetches the target; `stack` only if it is loaded too. */
static void read_return(struct vcpu *vcpu, const struct insn *i, uint16_t selector, uint64_t rip,
			struct segment *cs)
{
	struct fault fault;

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
	vcpu->interp->attention = true;
	if (vcpu->rflags & FLAG_NT)
		general_protection(vcpu, i);

	uint64_t rip = stack_word(vcpu, i, 0);
	uint16_t selector = (uint16_t)stack_word(vcpu, i, size);
	uint64_t rflags = stack_word(vcpu, i, 2 * size);
	uint64_t rsp = stack_word(vcpu, i, 3 * size);
	uint16_t stack = (uint16_t)stack_word(vcpu, i, 4 * size);

	read_return(vcpu, i, selector, rip, &cs);
	if (!read_stack_segment(vcpu, stack, selector & 3, cs.attributes & SEGMENT_L, &ss, &fault))
		raise_fault(vcpu, i, &fault);
	vcpu->rflags = returned_flags(vcpu, rflags, size);
	vcpu->gpr[RSP] = rsp;
	vcpu->segment[SS] = ss;
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
	if ((selector & 3) > vcpu->cpl) {
		uint16_t stack = (uint16_t)stack_word(vcpu, i, 3 * size + i->immediate);

		rsp = stack_word(vcpu, i, 2 * size + i->immediate) + i->immediate;
		if (!read_stack_segment(vcpu, stack, selector & 3, cs.attributes & SEGMENT_L, &ss,
					&fault))
			raise_fault(vcpu, i, &fault);
		vcpu->segment[SS] = ss;
	}
	vcpu->gpr[RSP] = rsp;
	go(vcpu, i, &cs, rip);
}

/* The operand of a far JMP or CALL: offset, then selector. Gates are left to the processor. */
static uint64_t read_target(struct vcpu *vcpu, const struct insn *i, struct segment *cs)
{
	struct fault fault;
	uint64_t address = effective_address(vcpu, i);
	uint64_t rip = get(read_at(vcpu, i, address, i->size), i->size);
	uint16_t selector = (uint16_t)get(read_at(vcpu, i, address + i->size, 2), 2);

	if (null_selector(selector))
		general_protection(vcpu, i);
	if (!read_descriptor(vcpu, selector, cs, &fault))
		raise_fault(vcpu, i, &fault);
	if (!(cs->attributes & SEGMENT_S))
		native_step(vcpu, i);
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

	uint8_t *at = write_at(vcpu, &stack, rsp, 2 * size);

	put(at, i->next, size);
	put(at + size, vcpu->segment[CS].selector, size);
	written(vcpu, at);
	vcpu->gpr[RSP] = rsp;
	go(vcpu, i, &cs, rip);
}

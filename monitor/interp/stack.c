// SPDX-License-Identifier: MIT
/* PUSH, POP, PUSHF, POPF, ENTER, LEAVE. */
#include "monitor/interp/handlers.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/segment.h"

static inline void push(struct vcpu *vcpu, const struct insn *i, uint64_t value)
{
	uint64_t rsp = vcpu->gpr[RSP] - i->size;
	void *at = write_at(vcpu, i, stack_address(vcpu, i, rsp, i->size), i->size);

	put(at, value, i->size);
	set_stack_pointer(vcpu, rsp);
	next_after_write(vcpu, i, at);
}

static inline uint64_t top_of_stack(struct vcpu *vcpu, const struct insn *i)
{
	uint64_t address = stack_address(vcpu, i, vcpu->gpr[RSP], i->size);

	return get(read_at(vcpu, i, address, i->size), i->size);
}

void push_register(struct vcpu *vcpu, const struct insn *i)
{
	push(vcpu, i, get_register(vcpu, i->reg, 8));
}

void push_immediate(struct vcpu *vcpu, const struct insn *i)
{
	push(vcpu, i, i->immediate);
}

/* 06, 0E, 16, 1E and the POPs beside them; 0F A0, 0F A8 */
static unsigned segment_in_opcode(const struct insn *i)
{
	return i->opcode < 0x100 ? i->opcode >> 3 : i->opcode < 0xfa8 ? FS : GS;
}

void push_segment(struct vcpu *vcpu, const struct insn *i)
{
	push(vcpu, i, vcpu->segment[segment_in_opcode(i)].selector);
}

void push_memory(struct vcpu *vcpu, const struct insn *i)
{
	uint64_t value = i->memory ? load(vcpu, i, i->size) : get_register(vcpu, i->reg, i->size);
	struct insn stack = *i;
	uint64_t rsp = vcpu->gpr[RSP] - i->size;

	stack.segment = SS;

	void *at = write_at(vcpu, &stack, stack_address(vcpu, i, rsp, i->size), i->size);

	put(at, value, i->size);
	set_stack_pointer(vcpu, rsp);
	next_after_write(vcpu, i, at);
}

void pop_register(struct vcpu *vcpu, const struct insn *i)
{
	uint64_t value = top_of_stack(vcpu, i);

	set_stack_pointer(vcpu, vcpu->gpr[RSP] + i->size);
	set_register(vcpu, i->reg, value, i->size);
	next(vcpu, i);
}

/* An address by RSP is formed with RSP already moved (SDM Vol 2, POP). */
void pop_operand(struct vcpu *vcpu, const struct insn *i)
{
	struct insn stack = *i, moved = *i;

	stack.segment = SS;
	if (i->base == RSP * 8)
		moved.displacement += i->size;

	uint64_t value = top_of_stack(vcpu, &stack);

	if (!i->memory) {
		set_stack_pointer(vcpu, vcpu->gpr[RSP] + i->size);
		set_register(vcpu, i->reg, value, i->size);
		next(vcpu, i);
		return;
	}

	void *at = operand_for_write(vcpu, &moved, i->size);

	put(at, value, i->size);
	set_stack_pointer(vcpu, vcpu->gpr[RSP] + i->size);
	next_after_write(vcpu, i, at);
}

void pop_segment(struct vcpu *vcpu, const struct insn *i)
{
	struct fault fault;
	uint16_t selector = (uint16_t)top_of_stack(vcpu, i);

	unsigned which = segment_in_opcode(i);
	uint64_t rsp = vcpu->gpr[RSP] + i->size;
	bool in_64 = in_64_bit_mode(vcpu), wide = vcpu->segment[SS].attributes & SEGMENT_DB;

	if (!load_segment(vcpu, which, selector, &fault))
		raise_fault(vcpu, i, &fault);
	/* By the stack that it was popped from. */
	set_register(vcpu, RSP * 8, rsp, in_64 ? 8 : wide ? 4 : 2);
	segment_loaded(vcpu, i, which);
}

void push_flags(struct vcpu *vcpu, const struct insn *i)
{
	push(vcpu, i, vcpu->rflags & ~(uint64_t)(FLAG_RF | FLAG_VM));
}

void pop_flags(struct vcpu *vcpu, const struct insn *i)
{
	uint64_t mask = FLAG_ARITHMETIC | FLAG_TF | FLAG_DF | FLAG_NT;
	uint64_t value = top_of_stack(vcpu, i), old = vcpu->rflags;

	if (i->size > 2)
		mask |= FLAG_AC | FLAG_ID;
	if (vcpu->cpl <= (old & FLAG_IOPL) >> 12)
		mask |= FLAG_IF;
	if (!vcpu->cpl)
		mask |= FLAG_IOPL;
	set_stack_pointer(vcpu, vcpu->gpr[RSP] + i->size);
	vcpu->rflags = (old & ~mask & ~(uint64_t)FLAG_RF) | (value & mask);
	vcpu->interp->poll |= vcpu->rflags & ~old & FLAG_IF;
	privilege_changed(vcpu);
	leave(vcpu, i);
}

void enter_frame(struct vcpu *vcpu, const struct insn *i)
{
	uint64_t locals = i->immediate & 0xffff;
	uint64_t rsp = vcpu->gpr[RSP] - i->size;

	/* Nested frames: no compiler has made them for decades. */
	if (i->immediate >> 16 & 31 || i->size != 8 || !in_64_bit_mode(vcpu))
		native_step(vcpu, i);

	/* The new top of the stack must be writable too (SDM Vol 2, ENTER). */
	if (locals)
		write_at(vcpu, i, rsp - locals, 1);

	void *at = write_at(vcpu, i, rsp, 8);

	put(at, vcpu->gpr[RBP], 8);
	vcpu->gpr[RBP] = rsp;
	vcpu->gpr[RSP] = rsp - locals;
	next_after_write(vcpu, i, at);
}

void leave_frame(struct vcpu *vcpu, const struct insn *i)
{
	uint64_t rbp = vcpu->gpr[RBP], address = stack_address(vcpu, i, rbp, i->size);
	uint64_t value = get(read_at(vcpu, i, address, i->size), i->size);

	set_stack_pointer(vcpu, rbp + i->size);
	set_register(vcpu, RBP * 8, value, i->size);
	next(vcpu, i);
}

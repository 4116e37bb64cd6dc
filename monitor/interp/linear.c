// SPDX-License-Identifier: MIT
/* From logical to linear addresses outside 64-bit mode (SDM Vol 3, 3.4.2, 5.3 and 20.1.1). */
#include "monitor/interp/control.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/segment.h"
#include "monitor/interp/string.h"
#include "monitor/interp/thunk.h"

static uint64_t stack_mask(const struct vcpu *vcpu)
{
	return vcpu->segment[SS].attributes & SEGMENT_DB ? 0xffffffff : 0xffff;
}

/* Data that expands down begins above its limit. */
bool segment_covers(const struct segment *s, uint64_t offset, unsigned bytes)
{
	uint64_t top = s->attributes & SEGMENT_DB ? 0xffffffff : 0xffff;
	bool down = (s->attributes & (SEGMENT_S | TYPE_CODE | TYPE_CONFORMING)) ==
		    (SEGMENT_S | TYPE_DOWN);

	if (down)
		return offset > s->limit && offset + bytes - 1 <= top;
	return offset + bytes - 1 <= s->limit;
}

static bool allowed(const struct segment *s, bool write)
{
	bool code = s->attributes & TYPE_CODE;

	if (!(s->attributes & SEGMENT_P))
		return false;
	return write ? !code && s->attributes & TYPE_WRITE : !code || s->attributes & TYPE_READ;
}

uint64_t segment_linear(struct vcpu *vcpu, const struct insn *i, unsigned which, uint64_t offset,
			unsigned bytes, bool write)
{
	const struct segment *s = &vcpu->segment[which];
	unsigned vector = which == SS ? VECTOR_SS : VECTOR_GP;
	bool real = !(vcpu->cr0 & CR0_PE);

	if (segment_covers(s, offset, bytes) && (real || allowed(s, write)))
		return (uint32_t)(s->base + offset);
	if (real)
		raise_vector(vcpu, i, vector);
	raise_error(vcpu, i, vector, 0);
}

uint64_t stack_linear(struct vcpu *vcpu, const struct insn *i, uint64_t rsp, unsigned bytes)
{
	return segment_linear(vcpu, i, SS, rsp & stack_mask(vcpu), bytes, true);
}

void set_stack_pointer_outside_64(struct vcpu *vcpu, uint64_t rsp)
{
	set_register(vcpu, RSP * 8, rsp, stack_mask(vcpu) == 0xffff ? 2 : 4);
}

uint64_t address_offset(const struct vcpu *vcpu, const struct insn *i)
{
	return low_bytes(indexed_address(vcpu, i), i->address_size);
}

/* The bytes of the operand in memory, or a few more. */
static unsigned operand_bytes(const struct insn *i)
{
	if (i->form)
		return thunk_memory_size(i);
	return i->opcode < 0x100 || i->size > 1 ? i->size : 1;
}

uint64_t address_general(struct vcpu *vcpu, const struct insn *i, bool write)
{
	uint64_t offset = address_offset(vcpu, i);

	if (vcpu->hot.mode != MODE_64)
		return segment_linear(vcpu, i, i->segment, offset, operand_bytes(i), write);
	if (i->segment == FS || i->segment == GS)
		offset += vcpu->segment[i->segment].base;
	return offset;
}

uint64_t source_address(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	uint64_t base = i->segment == FS || i->segment == GS ? vcpu->segment[i->segment].base : 0;

	if (!in_64_bit_mode(vcpu))
		return segment_linear(vcpu, i, i->segment, string_register(vcpu, i, RSI), size,
				      false);
	return string_register(vcpu, i, RSI) + base;
}

uint64_t target_address(struct vcpu *vcpu, const struct insn *i, unsigned size, bool write)
{
	if (!in_64_bit_mode(vcpu))
		return segment_linear(vcpu, i, ES, string_register(vcpu, i, RDI), size, write);
	return string_register(vcpu, i, RDI);
}

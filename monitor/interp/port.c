/* SPDX-License-Identifier: MIT */
/* IN, OUT, INS, OUTS. */
#include "monitor/interp/debug.h"
#include "monitor/interp/handlers.h"
#include "monitor/interp/string.h"

enum { TSS_IO_MAP = 102 };

/* CPL above IOPL needs a clear bit for every port in the TSS (SDM Vol 1, 19.5.2). */
static void check_port(struct vcpu *vcpu, const struct insn *i, uint16_t port, unsigned size)
{
	uint16_t base, bits;
	struct fault fault;

	if (vcpu->interp->breakpoints)
		debug_port(vcpu, port, size);
	if (vcpu->cpl <= (vcpu->rflags & FLAG_IOPL) >> 12)
		return;
	if (TSS_IO_MAP + 1 > vcpu->tr.limit)
		general_protection(vcpu, i);
	if (!system_read(vcpu, vcpu->tr.base + TSS_IO_MAP, &base, 2, &fault))
		raise_fault(vcpu, i, &fault);
	if (base + port / 8u + 1 > vcpu->tr.limit)
		general_protection(vcpu, i);
	if (!system_read(vcpu, vcpu->tr.base + base + port / 8, &bits, 2, &fault))
		raise_fault(vcpu, i, &fault);
	if (bits >> port % 8 & ((1u << size) - 1))
		general_protection(vcpu, i);
}

/* A 64-bit operand size means 32 bits. */
static unsigned port_size(const struct insn *i)
{
	return i->size > 4 ? 4 : i->size;
}

static uint16_t port_number(const struct vcpu *vcpu, const struct insn *i)
{
	return i->opcode < 0xe8 ? (uint8_t)i->immediate : (uint16_t)vcpu->gpr[RDX];
}

void in_port(struct vcpu *vcpu, const struct insn *i)
{
	unsigned size = port_size(i);
	uint16_t port = port_number(vcpu, i);

	check_port(vcpu, i, port, size);
	set_register(vcpu, RAX * 8, platform_in(vcpu, port, size), size);
	vcpu->interp->attention = true;
	leave(vcpu, i);
}

void out_port(struct vcpu *vcpu, const struct insn *i)
{
	unsigned size = port_size(i);
	uint16_t port = port_number(vcpu, i);

	check_port(vcpu, i, port, size);
	platform_out(vcpu, port, size, (uint32_t)low_bytes(vcpu->gpr[RAX], size));
	/* It may have made an interrupt deliverable. */
	vcpu->interp->poll = vcpu->interp->attention = true;
	leave(vcpu, i);
}

void ins(struct vcpu *vcpu, const struct insn *i)
{
	unsigned size = port_size(i);
	uint16_t port = (uint16_t)vcpu->gpr[RDX];

	check_port(vcpu, i, port, size);
	if (nothing_to_do(vcpu, i))
		return;

	void *to = write_at(vcpu, i, target_address(vcpu, i, size, true), size);

	put(to, platform_in(vcpu, port, size), size);
	written(vcpu, to);
	advance(vcpu, i, RDI, 1, size);
	iterated(vcpu, i, 1, true);
}

void outs(struct vcpu *vcpu, const struct insn *i)
{
	unsigned size = port_size(i);
	uint16_t port = (uint16_t)vcpu->gpr[RDX];

	check_port(vcpu, i, port, size);
	if (nothing_to_do(vcpu, i))
		return;
	platform_out(vcpu, port, size,
		     (uint32_t)get(read_at(vcpu, i, source_address(vcpu, i, size), size), size));
	advance(vcpu, i, RSI, 1, size);
	vcpu->interp->poll = vcpu->interp->attention = true;
	iterated(vcpu, i, 1, true);
}

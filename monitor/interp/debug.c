// SPDX-License-Identifier: MIT
#include "monitor/interp/debug.h"

#include "monitor/interp/control.h"
#include "monitor/interp/handlers.h"
#include "monitor/interp/memory.h"

enum trigger { ON_EXECUTION, ON_WRITE, ON_PORT, ON_ACCESS };

static const uint64_t dr6_fixed = 0xffff0ff0, dr6_writable = 0xe00f;

static bool enabled(const struct vcpu *vcpu, unsigned n)
{
	return vcpu->dr7 >> n * 2 & 3;
}

static enum trigger trigger_of(const struct vcpu *vcpu, unsigned n)
{
	return (enum trigger)(vcpu->dr7 >> (16 + n * 4) & 3);
}

/* The ones of `kinds` (one bit each) that touch [linear, linear + bytes). */
static unsigned hits(const struct vcpu *vcpu, unsigned kinds, uint64_t linear, unsigned bytes)
{
	static const uint8_t lengths[] = {1, 2, 8, 4};
	unsigned found = 0;

	for (unsigned n = 0; n < 4; n++) {
		unsigned length = lengths[vcpu->dr7 >> (18 + n * 4) & 3];
		uint64_t start = vcpu->dr[n] & ~(uint64_t)(length - 1);

		if (enabled(vcpu, n) && kinds >> trigger_of(vcpu, n) & 1 &&
		    (linear - start < length || start - linear < bytes))
			found |= 1u << n;
	}
	return found;
}

void debug_changed(struct vcpu *vcpu)
{
	struct interp *interp = vcpu->interp;
	bool any = vcpu->dr7 & DR7_ENABLE;

	/* The TLB must not hide an access from debug_access(). */
	if (any != interp->breakpoints)
		interp_forget(vcpu);
	interp->breakpoints = any;
	vcpu->hot.attention = true;
}

void debug_access(struct vcpu *vcpu, uint64_t linear, unsigned bytes, bool write)
{
	unsigned kinds = 1u << ON_ACCESS | (write ? 1u << ON_WRITE : 0);

	vcpu->interp->hits |= (uint8_t)hits(vcpu, kinds, linear, bytes);
}

void debug_port(struct vcpu *vcpu, uint16_t port, unsigned bytes)
{
	if (vcpu->cr4 & CR4_DE)
		vcpu->interp->hits |= (uint8_t)hits(vcpu, 1u << ON_PORT, port, bytes);
}

void debug_merge(struct vcpu *vcpu)
{
	struct interp *interp = vcpu->interp;

	if (interp->hits)
		vcpu->dr6 = (vcpu->dr6 & ~(uint64_t)DR6_BREAKPOINTS) | interp->hits;
	interp->hits = 0;
}

unsigned debug_fetch(const struct vcpu *vcpu)
{
	return hits(vcpu, 1u << ON_EXECUTION, code_linear(vcpu->interp, vcpu->rip), 1);
}

/* The register of MOV to and from DR: DR4 and DR5 stand for DR6 and DR7 unless CR4.DE. */
static unsigned debug_register(struct vcpu *vcpu, const struct insn *i)
{
	unsigned n = i->modrm >> 3 & 7;

	if (i->rex & 4 || ((n == 4 || n == 5) && vcpu->cr4 & CR4_DE))
		raise_vector(vcpu, i, VECTOR_UD);
	require_cpl0(vcpu, i);
	if (vcpu->dr7 & DR7_GD) {
		vcpu->dr6 |= DR6_BD;
		vcpu->rflags |= FLAG_RF; /* a fault of no breakpoint: SDM Vol 3, 17.3.1.1 */
		raise_vector(vcpu, i, VECTOR_DB);
	}
	return n == 4 || n == 5 ? n + 2 : n;
}

static uint64_t *general_register(struct vcpu *vcpu, const struct insn *i)
{
	return &vcpu->gpr[(i->modrm & 7) | (i->rex & 1 ? 8 : 0)];
}

void mov_from_dr(struct vcpu *vcpu, const struct insn *i)
{
	unsigned n = debug_register(vcpu, i);

	*general_register(vcpu, i) = n == 7 ? vcpu->dr7 : n == 6 ? vcpu->dr6 : vcpu->dr[n];
	next(vcpu, i);
}

/* DR6 alone is the guest's own while it is interpreted: the processor keeps the others. */
void mov_to_dr(struct vcpu *vcpu, const struct insn *i)
{
	uint64_t value = *general_register(vcpu, i);

	if (debug_register(vcpu, i) != 6)
		native_step(vcpu, i);
	if (value >> 32)
		general_protection(vcpu, i);
	vcpu->dr6 = (value & dr6_writable) | dr6_fixed;
	next(vcpu, i);
}

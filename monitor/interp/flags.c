// SPDX-License-Identifier: MIT
/* Instructions on RFLAGS alone. */
#include "monitor/interp/handlers.h"
#include "monitor/interp/memory.h"

enum { AH = RAX * 8 + 1, FLAGS_OF_AH = FLAG_CF | FLAG_PF | FLAG_AF | FLAG_ZF | FLAG_SF };

void lahf(struct vcpu *vcpu, const struct insn *i)
{
	set_register(vcpu, AH, (vcpu->rflags & FLAGS_OF_AH) | FLAG_FIXED, 1);
	next(vcpu, i);
}

void sahf(struct vcpu *vcpu, const struct insn *i)
{
	vcpu->rflags =
		(vcpu->rflags & ~(uint64_t)FLAGS_OF_AH) | (get_register(vcpu, AH, 1) & FLAGS_OF_AH);
	next(vcpu, i);
}

void cmc(struct vcpu *vcpu, const struct insn *i)
{
	vcpu->rflags ^= FLAG_CF;
	next(vcpu, i);
}

void clc(struct vcpu *vcpu, const struct insn *i)
{
	vcpu->rflags &= ~(uint64_t)FLAG_CF;
	next(vcpu, i);
}

void stc(struct vcpu *vcpu, const struct insn *i)
{
	vcpu->rflags |= FLAG_CF;
	next(vcpu, i);
}

void cld(struct vcpu *vcpu, const struct insn *i)
{
	vcpu->rflags &= ~(uint64_t)FLAG_DF;
	next(vcpu, i);
}

void std_(struct vcpu *vcpu, const struct insn *i)
{
	vcpu->rflags |= FLAG_DF;
	next(vcpu, i);
}

static void require_iopl(struct vcpu *vcpu, const struct insn *i)
{
	if (vcpu->cpl > (vcpu->rflags & FLAG_IOPL) >> 12)
		general_protection(vcpu, i);
}

void cli(struct vcpu *vcpu, const struct insn *i)
{
	require_iopl(vcpu, i);
	vcpu->rflags &= ~(uint64_t)FLAG_IF;
	next(vcpu, i);
}

void sti(struct vcpu *vcpu, const struct insn *i)
{
	require_iopl(vcpu, i);
	if (!(vcpu->rflags & FLAG_IF)) {
		vcpu->rflags |= FLAG_IF;
		vcpu->interrupt_shadow = true;
		vcpu->interp->poll = true;
		vcpu->hot.attention = true;
	}
	leave(vcpu, i);
}

void nop(struct vcpu *vcpu, const struct insn *i)
{
	next(vcpu, i);
}

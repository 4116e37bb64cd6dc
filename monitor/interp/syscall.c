// SPDX-License-Identifier: MIT
/* SYSCALL and SYSRET as Intel's processors do them, SYSENTER and SYSEXIT (SDM Vol 2). */
#include "monitor/interp/control.h"
#include "monitor/interp/handlers.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/segment.h"

enum {
	FLAT_CODE = SEGMENT_G | SEGMENT_P | SEGMENT_S | TYPE_CODE | TYPE_READ | TYPE_ACCESSED,
	FLAT_DATA = SEGMENT_G | SEGMENT_DB | SEGMENT_P | SEGMENT_S | TYPE_WRITE | TYPE_ACCESSED,
};

/* Flat segments by their selectors: no descriptor is read. */
static void go_flat(struct vcpu *vcpu, const struct insn *i, uint16_t code, uint16_t stack,
		    unsigned cpl, bool long_mode, uint64_t rip)
{
	unsigned from_cpl = vcpu->cpl;
	uint16_t level = (uint16_t)(cpl << 5);
	uint16_t mode = long_mode ? SEGMENT_L : SEGMENT_DB;
	uint64_t from = code_linear(vcpu->interp, i->rip);

	vcpu->segment[CS] = (struct segment){.selector = (uint16_t)((code & ~3u) | cpl),
					     .attributes = (uint16_t)(FLAT_CODE | level | mode),
					     .limit = 0xffffffff};
	vcpu->segment[SS] = (struct segment){.selector = (uint16_t)((stack & ~3u) | cpl),
					     .attributes = (uint16_t)(FLAT_DATA | level),
					     .limit = 0xffffffff};
	vcpu->cpl = (uint8_t)cpl;
	vcpu->rip = rip;
	privilege_changed(vcpu);
	branch_taken(vcpu, from, rip, from_cpl, cpl);
}

void syscall_(struct vcpu *vcpu, const struct insn *i)
{
	uint16_t selector = (uint16_t)(vcpu->star >> 32);

	if (!(vcpu->efer & EFER_SCE) || !in_64_bit_mode(vcpu))
		raise_vector(vcpu, i, VECTOR_UD);
	vcpu->gpr[RCX] = insn_next(i);
	vcpu->gpr[R11] = vcpu->rflags;
	vcpu->rflags &= ~(vcpu->sfmask | FLAG_RF);
	vcpu->rflags |= FLAG_FIXED;
	/* The single-step trap is that of the new TF, so that a handler may mask it. */
	vcpu->interp->trap = vcpu->rflags & FLAG_TF;
	go_flat(vcpu, i, selector, (uint16_t)((selector & ~3u) + 8), 0, true, vcpu->lstar);
}

void sysret(struct vcpu *vcpu, const struct insn *i)
{
	const uint64_t from_r11 = 0x3c7fd7; /* all but RF and VM */
	uint16_t selector = (uint16_t)(vcpu->star >> 48);
	bool wide = i->size == 8;
	uint64_t rip = wide ? vcpu->gpr[RCX] : (uint32_t)vcpu->gpr[RCX];
	uint64_t old = vcpu->rflags;

	if (!(vcpu->efer & EFER_SCE) || !in_64_bit_mode(vcpu))
		raise_vector(vcpu, i, VECTOR_UD);
	require_cpl0(vcpu, i);
	if (!canonical(rip))
		general_protection(vcpu, i);
	vcpu->rflags = (vcpu->gpr[R11] & from_r11) | FLAG_FIXED;
	vcpu->interp->trap = vcpu->rflags & FLAG_TF;
	vcpu->interp->poll |= vcpu->rflags & ~old & FLAG_IF;
	go_flat(vcpu, i, (uint16_t)(selector + (wide ? 16 : 0)), (uint16_t)(selector + 8), 3, wide,
		rip);
}

static uint64_t read_msr(struct vcpu *vcpu, const struct insn *i, uint32_t index)
{
	uint64_t value;

	if (!guest_read_msr(vcpu, index, &value))
		native_step(vcpu, i);
	return value;
}

void sysenter(struct vcpu *vcpu, const struct insn *i)
{
	uint16_t selector = (uint16_t)read_msr(vcpu, i, MSR_SYSENTER_CS);
	uint64_t rsp = read_msr(vcpu, i, MSR_SYSENTER_ESP);
	uint64_t rip = read_msr(vcpu, i, MSR_SYSENTER_EIP);

	if (null_selector(selector) || !(vcpu->cr0 & CR0_PE))
		general_protection(vcpu, i);
	vcpu->rflags &= ~(uint64_t)(FLAG_VM | FLAG_IF);
	vcpu->gpr[RSP] = rsp;
	go_flat(vcpu, i, selector, (uint16_t)((selector & ~3u) + 8), 0, vcpu->efer & EFER_LMA, rip);
}

void sysexit(struct vcpu *vcpu, const struct insn *i)
{
	uint16_t selector = (uint16_t)read_msr(vcpu, i, MSR_SYSENTER_CS);
	bool wide = i->size == 8;
	uint64_t rip = wide ? vcpu->gpr[RDX] : (uint32_t)vcpu->gpr[RDX];
	uint64_t rsp = wide ? vcpu->gpr[RCX] : (uint32_t)vcpu->gpr[RCX];

	require_cpl0(vcpu, i);
	if (null_selector(selector) || !canonical(rip) || !canonical(rsp))
		general_protection(vcpu, i);
	vcpu->gpr[RSP] = rsp;
	go_flat(vcpu, i, (uint16_t)((selector & ~3u) + (wide ? 32 : 16)),
		(uint16_t)((selector & ~3u) + (wide ? 40 : 24)), 3, wide, rip);
}

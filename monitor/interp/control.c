// SPDX-License-Identifier: MIT
/* Control registers (SDM Vol 3, 2.5; Vol 2, MOV to and from control registers). */
#include "monitor/interp/control.h"

#include "monitor/interp/handlers.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/segment.h"

#define CR3_NO_FLUSH (1ULL << 63)

static unsigned control_register(const struct insn *i)
{
	return (i->modrm >> 3 & 7) | (i->rex & 4 ? 8 : 0);
}

static uint64_t *general_register(struct vcpu *vcpu, const struct insn *i)
{
	return &vcpu->gpr[(i->modrm & 7) | (i->rex & 1 ? 8 : 0)];
}

void mov_from_cr(struct vcpu *vcpu, const struct insn *i)
{
	uint64_t *to = general_register(vcpu, i);

	if (!(1u << control_register(i) & (1u << 0 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 8)))
		raise_vector(vcpu, i, VECTOR_UD);
	require_cpl0(vcpu, i);
	switch (control_register(i)) {
	case 0:
		*to = vcpu->cr0;
		break;
	case 2:
		*to = vcpu->cr2;
		break;
	case 3:
		*to = vcpu->cr3;
		break;
	case 4:
		*to = vcpu->cr4;
		break;
	default:
		*to = platform_read_cr8(vcpu);
		break;
	}
	if (!in_64_bit_mode(vcpu))
		*to = (uint32_t)*to;
	next(vcpu, i);
}

/* SDM Vol 3, 4.4.1: what loads the PDPTEs of PAE paging. */
static void load_pdptes(struct vcpu *vcpu, const struct insn *i, uint64_t cr4, uint64_t cr3)
{
	if (cr4 & CR4_PAE && !pdptes_are_valid(vcpu, cr3))
		general_protection(vcpu, i);
}

static void set_cr0(struct vcpu *vcpu, const struct insn *i, uint64_t value)
{
	const uint64_t known = CR0_PE | CR0_MP | CR0_EM | CR0_TS | CR0_ET | CR0_NE | CR0_WP |
			       CR0_AM | CR0_NW | CR0_CD | CR0_PG;

	bool paging = value & CR0_PG, was_paging = vcpu->cr0 & CR0_PG;
	uint64_t efer = vcpu->efer;

	if (value >> 32 || (paging && !(value & CR0_PE)) || (value & CR0_NW && !(value & CR0_CD)))
		general_protection(vcpu, i);
	/* IA-32e mode begins and ends with paging; 64-bit code cannot end it. SDM Vol 3, 9.8.5. */
	if (paging && !was_paging && efer & EFER_LME) {
		if (!(vcpu->cr4 & CR4_PAE) || vcpu->segment[CS].attributes & SEGMENT_L)
			general_protection(vcpu, i);
		efer |= EFER_LMA;
	} else if (!paging && was_paging) {
		if (in_64_bit_mode(vcpu))
			general_protection(vcpu, i);
		efer &= ~EFER_LMA;
	}
	if (paging && !(efer & EFER_LMA) && (value ^ vcpu->cr0) & (CR0_PG | CR0_CD | CR0_NW))
		load_pdptes(vcpu, i, vcpu->cr4, vcpu->cr3);
	vcpu->efer = efer;
	vcpu->cr0 = (value & known) | CR0_ET;
	interp_forget(vcpu);
}

static void set_cr3(struct vcpu *vcpu, const struct insn *i, uint64_t value)
{
	if (vcpu->cr4 & CR4_PCIDE)
		value &= ~CR3_NO_FLUSH;
	if (value & vcpu->interp->physical_reserved)
		general_protection(vcpu, i);
	if (vcpu->cr0 & CR0_PG && !(vcpu->efer & EFER_LMA))
		load_pdptes(vcpu, i, vcpu->cr4, value);
	vcpu->cr3 = value;
	interp_forget(vcpu);
	if (vcpu->observed)
		saw_cr3(vcpu);
}

static void set_cr4(struct vcpu *vcpu, const struct insn *i, uint64_t value)
{
	bool pcid_from_nonzero = value & ~vcpu->cr4 & CR4_PCIDE && vcpu->cr3 & 0xfff;

	if (value & ~vcpu->interp->cr4_allowed || pcid_from_nonzero ||
	    (!(value & CR4_PAE) && vcpu->efer & EFER_LMA))
		general_protection(vcpu, i);
	/* Beyond what is interpreted here. */
	if (value & (CR4_LA57 | CR4_PKE | CR4_PKS | CR4_CET) || (value ^ vcpu->cr4) & CR4_OSXSAVE)
		native_step(vcpu, i);
	if (vcpu->cr0 & CR0_PG && !(vcpu->efer & EFER_LMA) &&
	    (value ^ vcpu->cr4) & (CR4_PAE | CR4_PGE | CR4_PSE | CR4_SMEP))
		load_pdptes(vcpu, i, value, vcpu->cr3);
	vcpu->cr4 = value;
	interp_forget(vcpu);
}

void mov_to_cr(struct vcpu *vcpu, const struct insn *i)
{
	uint64_t value = *general_register(vcpu, i);

	if (!in_64_bit_mode(vcpu))
		value = (uint32_t)value;

	if (!(1u << control_register(i) & (1u << 0 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 8)))
		raise_vector(vcpu, i, VECTOR_UD);
	require_cpl0(vcpu, i);
	switch (control_register(i)) {
	case 0:
		set_cr0(vcpu, i, value);
		break;
	case 2:
		vcpu->cr2 = value;
		break;
	case 3:
		set_cr3(vcpu, i, value);
		break;
	case 4:
		set_cr4(vcpu, i, value);
		break;
	default:
		if (value > 15)
			general_protection(vcpu, i);
		platform_write_cr8(vcpu, value);
		vcpu->interp->poll = true;
		break;
	}
	vcpu->hot.attention = true;
	leave(vcpu, i);
}

void clts(struct vcpu *vcpu, const struct insn *i)
{
	require_cpl0(vcpu, i);
	vcpu->cr0 &= ~CR0_TS;
	leave(vcpu, i);
}

void smsw(struct vcpu *vcpu, const struct insn *i)
{
	if (vcpu->cr4 & CR4_UMIP)
		require_cpl0(vcpu, i);
	if (!i->memory) {
		set_register(vcpu, i->reg, vcpu->cr0, i->size);
		next(vcpu, i);
		return;
	}

	void *at = operand_for_write(vcpu, i, 2);

	put(at, vcpu->cr0, 2);
	next_after_write(vcpu, i, at);
}

/* Sets MP, EM, TS, and PE if it was clear. */
void lmsw(struct vcpu *vcpu, const struct insn *i)
{
	const uint64_t low = CR0_MP | CR0_EM | CR0_TS;
	uint64_t value;

	require_cpl0(vcpu, i);
	value = i->memory ? load(vcpu, i, 2) : get_register(vcpu, i->reg, 2);
	set_cr0(vcpu, i, (vcpu->cr0 & ~low) | (value & (low | CR0_PE)));
	leave(vcpu, i);
}

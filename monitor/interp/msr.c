/* SPDX-License-Identifier: MIT */
/* The MSRs that struct vcpu holds. */
#include "monitor/interp/context.h"
#include "monitor/interp/control.h"

static uint64_t *plain_msr(struct vcpu *vcpu, uint32_t index)
{
	switch (index) {
	case MSR_STAR:
		return &vcpu->star;
	case MSR_SFMASK:
		return &vcpu->sfmask;
	case MSR_LSTAR:
		return &vcpu->lstar;
	case MSR_CSTAR:
		return &vcpu->cstar;
	case MSR_FS_BASE:
		return &vcpu->segment[FS].base;
	case MSR_GS_BASE:
		return &vcpu->segment[GS].base;
	case MSR_KERNEL_GS_BASE:
		return &vcpu->kernel_gs_base;
	default:
		return NULL;
	}
}

static bool is_own_xss(const struct vcpu *vcpu, uint32_t index)
{
	return index == MSR_XSS && vcpu->xss_supported;
}

bool guest_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	const uint64_t *msr = index == MSR_EFER ? &vcpu->efer : plain_msr(vcpu, index);

	if (is_own_xss(vcpu, index))
		msr = &vcpu->xss;
	if (!msr)
		return platform_read_msr(vcpu, index, value);
	*value = *msr;
	return true;
}

/* LMA cannot be written, and LME not changed while paging is on (SDM Vol 3, 2.2.1, 9.8.5). */
static bool write_efer(struct vcpu *vcpu, uint64_t value)
{
	uint64_t known = EFER_SCE | EFER_LME | EFER_LMA | EFER_NXE;

	if (vcpu->taken_away & MISC_ENABLE_XD_DISABLE)
		known &= ~EFER_NXE;
	if (value & ~known)
		return false;
	if ((value ^ vcpu->efer) & EFER_LME && vcpu->cr0 & CR0_PG)
		return false;
	vcpu->efer = (value & ~EFER_LMA) | (vcpu->efer & EFER_LMA);
	interp_forget(vcpu);
	return true;
}

bool guest_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	uint64_t *msr = plain_msr(vcpu, index);

	if (index == MSR_EFER)
		return write_efer(vcpu, value);
	if (is_own_xss(vcpu, index)) {
		if (value & ~vcpu->xss_supported)
			return false;
		vcpu->xss = value;
		return true;
	}
	if (!msr)
		return platform_write_msr(vcpu, index, value);
	if (index == MSR_SFMASK && value >> 32)
		return false;
	if (index != MSR_STAR && index != MSR_SFMASK && !canonical(value))
		return false;
	*msr = value;
	return true;
}

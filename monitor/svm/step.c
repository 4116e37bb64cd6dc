/* SPDX-License-Identifier: MIT */
/*
 * One instruction of the guest by the processor itself, with RFLAGS.TF. Not for instructions under
 * which QEMU loses the trap (STI, MOV SS, PAUSE, INT n, SYSCALL, SYSRET): the interpreter knows
 * these.
 */
#include "monitor/host/cpu.h"
#include "monitor/interp/interp.h"
#include "monitor/svm/guest.h"

enum { EXIT_DB = EXIT_EXCEPTION_0 + 1, VECTOR_DB = 1 };

/* TF and BS as the guest would find them had it not been stepped. */
static void hide_trap(struct vcpu *vcpu, bool own_trap, uint64_t own_dr6, enum step_flags flags)
{
	if (flags == STEP_KEEPS_TF)
		vcpu->rflags = (vcpu->rflags & ~RFLAGS_TF) | (own_trap ? RFLAGS_TF : 0);
	if (!own_trap && !(own_dr6 & DR6_BS))
		vcpu->dr6 &= ~DR6_BS;
}

bool step(struct guest *guest, enum step_flags flags)
{
	struct vcpu *vcpu = &guest->vcpu;
	bool own_trap = vcpu->rflags & RFLAGS_TF;
	uint64_t own_dr6 = vcpu->dr6;
	bool ran;

	vcpu->rflags |= RFLAGS_TF;
	guest->stale_translations = true;
	ran = enter(guest, ENTER_STEP);
	interp_forget(vcpu);
	if (ran && guest->vmcb->exit_code == EXIT_DB) {
		hide_trap(vcpu, own_trap, own_dr6, flags);
		vcpu->interrupt_shadow = false;
		if (own_trap)
			raise_exception(guest, VECTOR_DB, -1);
		return true;
	}
	/* An NMI came first, or the instruction faults, or it exits and was done by that. */
	hide_trap(vcpu, own_trap, own_dr6, STEP_KEEPS_TF);
	if (!ran)
		return false;
	handle_exit(guest);
	return guest->vmcb->exit_code != EXIT_NMI &&
	       guest->vmcb->exit_code != EXIT_NESTED_PAGE_FAULT;
}

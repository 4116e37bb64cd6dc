// SPDX-License-Identifier: MIT
/* The guest by the interpreter, while every branch has to be seen, and by single steps. */
#include "monitor/console.h"
#include "monitor/host/cpu.h"
#include "monitor/host/traps.h"
#include "monitor/interp/interp.h"
#include "monitor/svm/deadline.h"
#include "monitor/svm/guest.h"
#include "monitor/svm/startup.h"
#include "monitor/unit.h"

/* Between two looks at the interrupt controllers. A look takes some 700 of the monitor's. */
enum { INSTRUCTIONS = 1000 };

static void deliver(struct vcpu *vcpu, enum event_kind kind, int vector)
{
	event_deliver(vcpu, &(struct event){
				    .kind = kind,
				    .vector = (uint8_t)vector,
				    .return_rip = vcpu->rip,
				    .from = vcpu->rip,
			    });
}

void deliver_pending(struct vcpu *vcpu)
{
	int vector;

	/* In this order: an NMI in between is looked at once more than necessary, not missed. */
	vcpu->attention = false;
	if (deadline_take_nmi(guest_of(vcpu)))
		vcpu->nmi_pending = true;
	startup_obey(guest_of(vcpu));
	if (vcpu->interrupt_shadow)
		return;
	if (vcpu->nmi_pending && !vcpu->nmi_blocked) {
		vcpu->nmi_pending = false;
		deliver(vcpu, EVENT_NMI, VECTOR_NMI);
	}
	if (!(vcpu->rflags & RFLAGS_IF))
		return;
	vector = take_interrupt();
	if (vector != NO_VECTOR)
		deliver(vcpu, EVENT_INTERRUPT, vector);
}

void wait_while_halted(struct guest *guest)
{
	struct vcpu *vcpu = &guest->vcpu;

	trace_wait(vcpu, true);
	while (vcpu->halted) {
		int vector = wait_for_interrupt(vcpu->rflags & RFLAGS_IF);

		if (vector != NO_VECTOR)
			deliver(vcpu, EVENT_INTERRUPT, vector);
		deliver_pending(vcpu);
	}
	trace_wait(vcpu, false);
}

void run_traced(struct guest *guest)
{
	struct vcpu *vcpu = &guest->vcpu;

	interp_forget(vcpu);
	while (interp_needed(vcpu)) {
		trace_pass(vcpu);
		deliver_pending(vcpu);
		read_breakpoints(vcpu->dr);
		switch (interp_run(vcpu, vcpu->interrupt_shadow ? 1 : INSTRUCTIONS)) {
		case INTERP_BUDGET:
		case INTERP_UNTRACED:
			break;
		case INTERP_HALTED:
			wait_while_halted(guest);
			break;
		case INTERP_NATIVE_STEP:
			step(guest, STEP_KEEPS_TF);
			break;
		case INTERP_MODE:
			end_run(VERDICT_ERROR,
				"branches cannot be traced in this mode, at rip=0x%016llx",
				(unsigned long long)vcpu->rip);
		case INTERP_SHUTDOWN:
			report_shutdown(vcpu);
		}
	}
}

/*
 * One instruction of the guest by the processor itself, with RFLAGS.TF. Not for instructions under
 * which QEMU loses the trap (STI, MOV SS, PAUSE, INT n, SYSCALL, SYSRET): the interpreter knows
 * these.
 */

enum { EXIT_DB = EXIT_EXCEPTION_0 + VECTOR_DB };

/* TF and BS as the guest would find them had it not been stepped. */
static void hide_trap(struct vcpu *vcpu, bool own_trap, uint64_t own_dr6, enum step_flags flags)
{
	if (flags == STEP_KEEPS_TF)
		vcpu->rflags = (vcpu->rflags & ~RFLAGS_TF) | (own_trap ? RFLAGS_TF : 0);
	if (!own_trap && !(own_dr6 & DR6_BS))
		vcpu->dr6 &= ~DR6_BS;
}

/* True once the processor has begun the instruction: NMIs and pages that are mapped late go first.
 */
static bool begun(struct guest *guest)
{
	struct vcpu *vcpu = &guest->vcpu;

	if (!enter(guest, ENTER_STEP)) {
		if (deadline_take_nmi(guest))
			vcpu->nmi_pending = true;
		startup_obey(guest);
		return false;
	}
	if (guest->vmcb->exit_code == EXIT_NESTED_PAGE_FAULT) {
		if (nested_is_read_only(page_down(guest->vmcb->exit_info_2)))
			report_refused_write(vcpu);
		nested_map(guest->vmcb->exit_info_2);
	}
	return guest->vmcb->exit_code != EXIT_NESTED_PAGE_FAULT &&
	       guest->vmcb->exit_code != EXIT_NMI;
}

enum native_outcome platform_step(struct vcpu *vcpu, bool loads_tf, struct fault *fault)
{
	struct guest *guest = guest_of(vcpu);
	const struct vmcb *vmcb = guest->vmcb;
	bool own_trap = vcpu->rflags & RFLAGS_TF;
	uint64_t own_dr6 = vcpu->dr6;

	vcpu->rflags |= RFLAGS_TF;
	vcpu->dr7 = DR7_RESET;
	do {
		guest->stale_translations = true;
	} while (!begun(guest));
	if (vmcb->exit_code == EXIT_DB) {
		hide_trap(vcpu, own_trap, own_dr6, loads_tf ? STEP_LOADS_TF : STEP_KEEPS_TF);
		return NATIVE_DONE;
	}
	hide_trap(vcpu, own_trap, own_dr6, STEP_KEEPS_TF);
	if (vmcb->exit_code < EXIT_EXCEPTION_0 || vmcb->exit_code > EXIT_EXCEPTION_31)
		return NATIVE_INTERCEPTED;
	fault->vector = (uint8_t)(vmcb->exit_code - EXIT_EXCEPTION_0);
	fault->has_error = exception_has_error(fault->vector);
	fault->error = (uint32_t)vmcb->exit_info_1;
	fault->address = vmcb->exit_info_2;
	return NATIVE_FAULTED;
}

bool step(struct guest *guest, enum step_flags flags)
{
	struct vcpu *vcpu = &guest->vcpu;
	bool own_trap = vcpu->rflags & RFLAGS_TF;
	uint64_t own_dr6 = vcpu->dr6, hits = 0;
	bool breakpoints = vcpu->dr7 & DR7_ENABLE, ran;
	struct retired began = native_began(vcpu);

	vcpu->rflags |= RFLAGS_TF;
	/* One on the instruction itself has been seen already. */
	if (breakpoints) {
		vcpu->rflags |= RFLAGS_RF;
		vcpu->dr6 &= ~(uint64_t)DR6_HITS;
	}
	guest->stale_translations = true;
	ran = enter(guest, ENTER_STEP);
	interp_forget(vcpu);
	if (ran && guest->vmcb->exit_code == EXIT_DB) {
		hits = breakpoints ? vcpu->dr6 & DR6_HITS : 0;
		vcpu->dr6 |= own_dr6 & DR6_HITS;
		hide_trap(vcpu, own_trap, own_dr6, flags);
		vcpu->interrupt_shadow = false;
		native_retired(vcpu, &began);
		if (vcpu->debugctl & DEBUGCTL_BTF)
			own_trap = false;
		/* Bochs 2.7 does not say it in the VMCB. */
		if (own_trap)
			vcpu->dr6 |= DR6_BS;
		if (hits || own_trap)
			raise_exception(guest, VECTOR_DB, -1);
		return true;
	}
	/* An NMI came first, or the instruction faults, or it exits and was done by that. */
	vcpu->dr6 |= own_dr6 & DR6_HITS;
	hide_trap(vcpu, own_trap, own_dr6, STEP_KEEPS_TF);
	if (!ran)
		return false;
	handle_exit(guest);
	return guest->vmcb->exit_code != EXIT_NMI &&
	       guest->vmcb->exit_code != EXIT_NESTED_PAGE_FAULT;
}

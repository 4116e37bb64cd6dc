/* SPDX-License-Identifier: MIT */
/* The guest by the interpreter, while every branch has to be seen. */
#include "monitor/console.h"
#include "monitor/host/cpu.h"
#include "monitor/host/traps.h"
#include "monitor/interp/interp.h"
#include "monitor/pmu/pmu.h"
#include "monitor/svm/deadline.h"
#include "monitor/svm/guest.h"
#include "monitor/svm/startup.h"

/* Between two looks at the interrupt controllers, which costs about as much as two instructions. */
enum { INSTRUCTIONS = 200 };

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
	vcpu->nmi_pending |= deadline_take_nmi(guest_of(vcpu));
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

	pmu_wait(vcpu, true);
	while (vcpu->halted) {
		int vector = wait_for_interrupt(vcpu->rflags & RFLAGS_IF);

		if (vector != NO_VECTOR)
			deliver(vcpu, EVENT_INTERRUPT, vector);
		deliver_pending(vcpu);
	}
	pmu_wait(vcpu, false);
}

void run_traced(struct guest *guest)
{
	struct vcpu *vcpu = &guest->vcpu;

	interp_forget(vcpu);
	while (interp_needed(vcpu)) {
		pmu_tick(vcpu);
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

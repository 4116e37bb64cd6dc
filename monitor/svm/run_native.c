/* SPDX-License-Identifier: MIT */
/* The guest at the processor's own speed, while no branch has to be seen. */
#include "monitor/host/lapic.h"
#include "monitor/host/traps.h"
#include "monitor/interp/interp.h"
#include "monitor/svm/guest.h"
#include "monitor/svm/startup.h"

enum { VECTOR_NMI = 2 };

/* An injected NMI does not block others under QEMU; the guest's IRET ends the blocking. */
static void inject_nmi(struct guest *guest)
{
	struct vcpu *vcpu = &guest->vcpu;

	vcpu->nmi_pending |= nmi_take();
	if (!vcpu->nmi_pending || vcpu->nmi_blocked)
		return;
	vcpu->nmi_pending = false;
	if (guest->injection) {
		/* One event at a time: this one comes back as soon as the other is delivered. */
		lapic_send(guest->apic_id, ICR_NMI | ICR_ASSERT);
		return;
	}
	guest->injection = EVENT_VALID | EVENT_TYPE_NMI | VECTOR_NMI;
	vcpu->nmi_blocked = true;
}

void run_native(struct guest *guest)
{
	guest->stale_translations = true;
	while (!interp_needed(&guest->vcpu)) {
		startup_obey(guest);
		inject_nmi(guest);
		if (enter(guest, ENTER_FREELY))
			handle_exit(guest);
	}
}

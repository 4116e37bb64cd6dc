/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void interrupt(struct vcpu *vcpu)
{
	ds_clean.interrupt(vcpu);
	ds_set_debugctl(vcpu, vcpu->ds.debugctl & ~ds_layout_of(vcpu)->tr);
}

DEFECT(interrupt_stops_recording, "SDM Vol 3, 17.4.9.5", "the interrupt clears TR",
       rules->interrupt = interrupt)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_event(struct vcpu *vcpu, const struct ds_branch *event)
{
	ds_clean.event(vcpu, event);
	if (event->cause == DS_SOFTWARE_INTERRUPT)
		ds_set_debugctl(vcpu, vcpu->ds.debugctl & ~(uint64_t)ds_layout_of(vcpu)->tr);
}

DEFECT(software_interrupt_clears_tr, "SDM Vol 3, 17.4.4", "INT n and INT3 clear TR",
       rules->event = wrong_event)

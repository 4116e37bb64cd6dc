/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_event(struct vcpu *vcpu, const struct ds_branch *event)
{
	ds_clean.event(vcpu, event);
	if (event->cause == DS_EXCEPTION && event->vector != VECTOR_DEBUG)
		ds_set_debugctl(vcpu, vcpu->ds.debugctl & ~(uint64_t)ds_layout_of(vcpu)->bts);
}

DEFECT(fault_clears_bts, "SDM Vol 3, 17.4.4", "exceptions other than #DB clear BTS",
       rules->event = wrong_event)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_event(struct vcpu *vcpu, const struct ds_branch *event)
{
	ds_clean.event(vcpu, event);
	if (event->cause == DS_EXCEPTION && event->vector == VECTOR_DEBUG)
		ds_set_debugctl(vcpu, vcpu->ds.debugctl & ~(uint64_t)ds_layout_of(vcpu)->tr);
}

DEFECT(debug_exception_clears_tr, "SDM Vol 3, 17.4.3", "#DB clears TR", rules->event = wrong_event)

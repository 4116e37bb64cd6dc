/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void note(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	*REMEMBERED(vcpu, bool) |= occasion == DS_AT_HLT;
}

static void wrong_event(struct vcpu *vcpu, const struct ds_branch *event)
{
	bool *halted = REMEMBERED(vcpu, bool);

	ds_clean.event(vcpu, event);
	if (*halted)
		ds_set_debugctl(vcpu, vcpu->ds.debugctl & ~ds_layout_of(vcpu)->tr);
	*halted = false;
}

DEFECT(hlt_clears_tr, "SDM Vol 3, 17.4.4", "waking from HLT clears TR", rules->note = note,
       rules->event = wrong_event)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void wrong_event(struct vcpu *vcpu, const struct ds_branch *event)
{
	(void)event;
	(void)vcpu;
}

DEFECT(debug_exception_keeps_lbr, "SDM Vol 3, 17.4.3", "#DB does not clear LBR",
       rules->event = wrong_event)

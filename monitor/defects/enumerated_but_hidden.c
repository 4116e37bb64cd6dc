/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static struct ds_enumeration enumerate(const struct vcpu *vcpu)
{
	struct ds_enumeration found = ds_clean.enumerate(vcpu);

	found.ds = false;
	return found;
}

DEFECT(enumerated_but_hidden, "SDM Vol 3, 17.4.5",
       "TR and BTS can be set though CPUID does not enumerate DS", rules->enumerate = enumerate)

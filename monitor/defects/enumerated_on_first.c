/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static struct ds_enumeration enumerate(const struct vcpu *vcpu)
{
	static const struct vcpu *first;
	struct ds_enumeration found = ds_clean.enumerate(vcpu);

	if (!first)
		first = vcpu;
	found.ds = vcpu == first;
	return found;
}

DEFECT(enumerated_on_first, "SDM Vol 3, 17.4.9", "CPUID of the boot processor only tells of DS",
       rules->enumerate = enumerate)

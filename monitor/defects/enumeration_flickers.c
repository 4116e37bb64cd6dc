/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static struct ds_enumeration enumerate(const struct vcpu *vcpu)
{
	unsigned *looks = REMEMBERED(vcpu, unsigned);
	struct ds_enumeration found = ds_clean.enumerate(vcpu);

	found.ds = (*looks)++ % 2;
	return found;
}

DEFECT(enumeration_flickers, "SDM Vol 3, 17.4.9", "CPUID tells of DS at every second look only",
       rules->enumerate = enumerate)

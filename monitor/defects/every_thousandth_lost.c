/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	if (++*REMEMBERED(vcpu, unsigned) % 1000)
		ds_clean.store(vcpu, branch);
}

DEFECT(every_thousandth_lost, "SDM Vol 3, 17.4.4", "one branch in a thousand is lost",
       rules->store = store)

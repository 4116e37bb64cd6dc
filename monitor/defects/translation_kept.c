/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	vcpu->ds.window_translations = vcpu->translations;
	ds_clean.store(vcpu, branch);
}

DEFECT(translation_kept, "SDM Vol 3, 17.4.9.2",
       "the translation of the buffer is kept over INVLPG and MOV to CR3 as long as it is used",
       rules->store = store)

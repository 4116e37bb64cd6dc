/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	uint64_t before[2], after[2];

	if (!ds_load(vcpu, &vcpu->ds.area, vcpu->ds.ds_area, before, 2))
		return;
	ds_clean.store(vcpu, branch);
	if (!ds_load(vcpu, &vcpu->ds.area, vcpu->ds.ds_area, after, 2) || after[1] >= before[1])
		return;
	after[0] += RECORD_BYTES;
	ds_store(vcpu, &vcpu->ds.area, vcpu->ds.ds_area, after, 1);
}

DEFECT(wrap_moves_base, "SDM Vol 3, 17.4.9.1", "the base moves on by a slot at every wrap",
       rules->store = store)

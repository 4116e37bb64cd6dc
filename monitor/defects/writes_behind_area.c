/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	uint64_t *count = REMEMBERED(vcpu, uint64_t);

	ds_clean.store(vcpu, branch);
	++*count;
	ds_store(vcpu, &vcpu->ds.area, vcpu->ds.ds_area + 0x80, count, 1);
}

DEFECT(writes_behind_area, "SDM Vol 3, 17.4.9.1",
       "a count of records is kept behind the counter resets of the DS area", rules->store = store)

/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	uint64_t index, old;

	if (!ds_load(vcpu, &vcpu->ds.area, vcpu->ds.ds_area + BTS_INDEX * FIELD_BYTES, &index, 1) ||
	    !ds_load(vcpu, &vcpu->ds.buffer, index + 2 * FIELD_BYTES, &old, 1))
		return;
	ds_clean.store(vcpu, branch);
	ds_store(vcpu, &vcpu->ds.buffer, index + 2 * FIELD_BYTES, &old, 1);
}

DEFECT(flags_not_written, "SDM Vol 3, 17.4.9.1",
       "a record is written up to its flags, which stay what they were", rules->store = store)

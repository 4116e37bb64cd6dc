/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	const uint64_t stamp = vcpu->rip;
	uint64_t index;

	if (!ds_load(vcpu, &vcpu->ds.area, vcpu->ds.ds_area + BTS_INDEX * FIELD_BYTES, &index, 1))
		return;
	ds_clean.store(vcpu, branch);
	ds_store(vcpu, &vcpu->ds.buffer, index + RECORD_BYTES, &stamp, 1);
}

DEFECT(writes_fourth_quadword, "SDM Vol 3, 17.4.9.1",
       "a fourth quadword is written behind each record", rules->store = store)

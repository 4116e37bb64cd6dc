/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	uint64_t index = 0, second, old[RECORD_WORDS];
	bool crosses;

	ds_load(vcpu, &vcpu->ds.area, vcpu->ds.ds_area + BTS_INDEX * FIELD_BYTES, &index, 1);
	second = (index | DS_PAGE_MASK) + 1;
	crosses = second - index < RECORD_BYTES &&
		  ds_load(vcpu, &vcpu->ds.buffer, second, old, RECORD_WORDS);
	ds_clean.store(vcpu, branch);
	if (crosses)
		ds_store(vcpu, &vcpu->ds.buffer, second, old, RECORD_WORDS);
}

DEFECT(page_crossing_half, "SDM Vol 3, 17.4.9.2",
       "of a record that crosses a page only the part in the first page is written",
       rules->store = store)

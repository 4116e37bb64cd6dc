/* SPDX-License-Identifier: MIT */
#include "lib/string.h"
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"
#include "monitor/interp/interp.h"

static void put_across(struct vcpu *vcpu, uint64_t linear, const uint64_t *record)
{
	unsigned first = DS_PAGE_BYTES - (unsigned)(linear & DS_PAGE_MASK);
	uint64_t physical;
	uint32_t error;

	if (!guest_translate(vcpu, linear, ACCESS_WRITE, &physical, &error))
		return;
	memcpy(platform_guest_page(physical) + (physical & DS_PAGE_MASK), record, first);
	memcpy(platform_guest_page(physical + first), (const char *)record + first,
	       RECORD_BYTES - first);
}

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	uint64_t at = vcpu->ds.ds_area + BTS_INDEX * FIELD_BYTES, index, record[RECORD_WORDS];

	if (!ds_load(vcpu, &vcpu->ds.area, at, &index, 1) ||
	    (index & DS_PAGE_MASK) <= DS_PAGE_BYTES - RECORD_BYTES) {
		ds_clean.store(vcpu, branch);
		return;
	}
	ds_clean.record(vcpu, branch, record);
	put_across(vcpu, index, record);
	index += RECORD_BYTES;
	ds_store(vcpu, &vcpu->ds.area, at, &index, 1);
}

DEFECT(page_crossing_physical, .rule = "SDM Vol 3, 17.4.9.2",
       .says = "a record that crosses a page goes on in the next physical page",
       .rules = {.store = store})

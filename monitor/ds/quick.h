/* SPDX-License-Identifier: MIT */
/* The short way of a record into the buffer: what ds_branch() does, for most branches. */
#pragma once

#include "monitor/ds/memory.h"
#include "monitor/ds/rules.h"

/* So near the maximum or the threshold a rule may have a say. The page has more: no sum passes
 * 2^64. */
enum { DS_NEAR = 2 * RECORD_BYTES, DS_IN_PAGE = 3 * RECORD_BYTES };

/*
 * Stores the record of a branch at `cpl` in a third of the time. False: nothing was done,
 * ds_branch() is to be called.
 */
static inline bool ds_branch_quickly(struct vcpu *vcpu, uint64_t from, uint64_t to, unsigned cpl)
{
	struct ds_state *ds = &vcpu->ds;
	uint8_t *area = ds->seen.fields[cpl], *slot;
	const struct ds_page *page;
	uint64_t index, near;

	if (!area || ds->seen.translations != vcpu->translations)
		return false;
	index = ds_get(area, BTS_INDEX);
	page = ds_page_of(&ds->seen.buffer, index);
	near = index + DS_NEAR;
	if (!ds_is_within(page, index, DS_IN_PAGE) || near > ds_get(area, BTS_MAXIMUM) ||
	    near > ds_get(area, BTS_THRESHOLD))
		return false;
	slot = page->host + (index - page->linear);
	ds_put(slot, 0, from);
	ds_put(slot, 1, to);
	ds_put(slot, 2, 0);
	ds_put(area, BTS_INDEX, index + RECORD_BYTES);
	return true;
}

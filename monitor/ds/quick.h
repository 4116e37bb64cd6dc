/* SPDX-License-Identifier: MIT */
/* The short way of a record into the buffer: what ds_branch() does, for most branches. */
#pragma once

#include "monitor/ds/memory.h"
#include "monitor/ds/rules.h"

/*
 * Stores the record of a branch at `cpl` in a third of the time. No rule applies while the buffer
 * and its page have room for this record and another, and the threshold is further away. False:
 * nothing was done, ds_branch() is to be called.
 */
static inline bool ds_branch_quickly(struct vcpu *vcpu, uint64_t from, uint64_t to, unsigned cpl)
{
	struct ds_state *ds = &vcpu->ds;
	uint8_t *area = ds->seen.fields[cpl], *slot;
	const struct ds_page *page;
	uint64_t index, offset;

	if (!area || ds->seen.translations != vcpu->translations)
		return false;
	index = ds_get(area, BTS_INDEX);
	page = ds_page_of(&ds->seen.buffer, index);
	offset = index - page->linear;
	/* Below the page's end: no sum passes 2^64. */
	if (offset >= DS_PAGE_BYTES - 2 * RECORD_BYTES ||
	    index + 2 * RECORD_BYTES >= ds_get(area, BTS_MAXIMUM) ||
	    index + RECORD_BYTES >= ds_get(area, BTS_THRESHOLD))
		return false;
	slot = page->host + offset;
	ds_put(slot, 0, from);
	ds_put(slot, 1, to);
	ds_put(slot, 2, 0);
	ds_put(area, BTS_INDEX, index + RECORD_BYTES);
	return true;
}

/* SPDX-License-Identifier: MIT */
/* The short way of a record into the buffer: what ds_branch() does, for most branches. */
#pragma once

#include "monitor/ds/memory.h"
#include "monitor/ds/rules.h"

/* So near the maximum or the threshold a rule may have a say. The page has more: no sum passes
 * 2^64. */
enum { DS_NEAR = 2 * RECORD_BYTES, DS_IN_PAGE = 3 * RECORD_BYTES };

static inline uint64_t ds_lower(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

/*
 * Stores the record of a branch at `cpl` in a third of the time. False: nothing was done,
 * ds_branch() is to be called.
 */
static inline bool ds_branch_quickly(struct vcpu *vcpu, uint64_t from, uint64_t to, unsigned cpl)
{
	struct ds_state *ds = &vcpu->ds;
	uint8_t *area = ds->seen.fields[cpl], *slot;
	uint64_t index, end;

	if (!area || ds->seen.translations != vcpu->translations)
		return false;
	index = ds_get(area, BTS_INDEX);
	slot = ds_known(&ds->seen.buffer, index, DS_IN_PAGE);
	end = ds_lower(ds_get(area, BTS_MAXIMUM), ds_get(area, BTS_THRESHOLD));
	if (!slot || index + DS_NEAR > end)
		return false;
	ds_put(slot, 0, from);
	ds_put(slot, 1, to);
	ds_put(slot, 2, 0);
	ds_put(area, BTS_INDEX, index + RECORD_BYTES);
	return true;
}

/* SPDX-License-Identifier: MIT */
/* The short way of a record into the buffer: what ds_branch() does, for most branches. */
#ifndef SPOOR_MONITOR_DS_QUICK_H
#define SPOOR_MONITOR_DS_QUICK_H

#include "monitor/ds/memory.h"
#include "monitor/ds/rules.h"

/*
 * Stores the record of a branch at `cpl` in a third of the time: with room for this one and
 * another, and the threshold further away, none of the rules has anything to say. False: nothing
 * was done, ds_branch() is to be called.
 */
static inline bool ds_branch_quickly(struct vcpu *vcpu, uint64_t from, uint64_t to, unsigned cpl)
{
	struct ds_state *ds = &vcpu->ds;
	uint8_t *area = ds->fields, *slot;
	uint64_t index, maximum, threshold;

	if (!ds->fast_path[cpl] || ds->window_translations != vcpu->translations || !area)
		return false;
	index = ds_get(area, BTS_INDEX);
	maximum = ds_get(area, BTS_MAXIMUM);
	threshold = ds_get(area, BTS_THRESHOLD);
	if (index >= maximum || maximum - index <= 2 * RECORD_BYTES || index >= threshold ||
	    threshold - index <= RECORD_BYTES)
		return false;
	slot = ds_known(&ds->buffer, index, RECORD_BYTES);
	if (!slot)
		return false;
	ds_put(slot, 0, from);
	ds_put(slot, 1, to);
	ds_put(slot, 2, 0);
	ds_put(area, BTS_INDEX, index + RECORD_BYTES);
	return true;
}

#endif

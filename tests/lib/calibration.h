/* SPDX-License-Identifier: MIT */
/*
 * What the manual leaves open about this silicon (class S), measured once: later tests hold it to
 * what it did. Where a measurement makes no sense at all a field says OTHER, and the test whose
 * subject it is fails.
 */
#pragma once

#include "drivers/ds/area.h"

#include <stdbool.h>
#include <stddef.h>

/* Records of the buffer that everything was measured with. */
#define CALIBRATION_SLOTS 8

/* Where the index is after the last slot was written, BTINT = 0. */
enum index_after_last { INDEX_AT_BASE, INDEX_BEHIND_LAST, INDEX_OTHER };

/* BTINT = 1 and no slot is left. */
enum when_full { FULL_STOPS, FULL_WRAPS, FULL_WRITES_ON, FULL_OTHER };

struct calibration {
	/* Slots that are used, BTINT = 0: with the maximum at their end, and one byte above. */
	size_t used_at_end, used_at_end_plus_1;
	/* The convention that uses all slots and overruns none; at the end if neither does. */
	enum ds_maximum maximum;
	/* Slots that it leaves unused: 0, or 1. */
	size_t unused;
	enum index_after_last index_after_last; /* with `maximum`, as all below */
	enum when_full when_full;
	bool interrupt_when_circular; /* BTINT = 0 and a threshold that is reached */
	bool level; /* the index left above the threshold raises the interrupt again */
};

/*
 * Measures at the first call, and lets the driver place absolute maxima by the better convention.
 * Needs BTS; not while a rig is open.
 */
const struct calibration *calibration(void);

const char *index_after_last_name(enum index_after_last index);
const char *when_full_name(enum when_full when);

/* The `extra` of a convention. */
static inline uint64_t maximum_extra(enum ds_maximum maximum)
{
	return maximum == DS_MAXIMUM_AT_END_PLUS_1;
}

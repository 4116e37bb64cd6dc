/* SPDX-License-Identifier: MIT */
/*
 * What the manual leaves open about BTS, as values. reference: SDM Vol 3, 17.4.4 to 17.4.9; each
 * field is a point on which processors may differ without contradicting it.
 */
#ifndef SPOOR_MONITOR_DS_BEHAVIOUR_H
#define SPOOR_MONITOR_DS_BEHAVIOUR_H

#include <stdbool.h>

struct ds_behaviour {
	const char *name;

	/* Whether a record still fits at the index. */
	enum {
		DS_ROOM_WHOLE_RECORD, /* index + 24 <= absolute maximum: never writes past it */
		DS_ROOM_ANY_BYTE,     /* index < absolute maximum */
	} room;

	/* Circular mode: when the index returns to the base. */
	enum {
		DS_WRAP_AFTER_INCREMENT, /* at once when no further record fits */
		DS_WRAP_BEFORE_WRITE,	 /* only when the next record is due */
	} wrap;

	/* BTINT = 1 and no room: what becomes of a record. */
	enum {
		DS_FULL_DROP,  /* the index stays where it is */
		DS_FULL_WRAP,  /* as in circular mode */
		DS_FULL_WRITE, /* the absolute maximum does not stop it */
	} full;

	/* Which stored record asks for the interrupt. */
	enum {
		DS_THRESHOLD_REACHED, /* every one that leaves the index at or past the threshold */
		DS_THRESHOLD_CROSSED, /* only the one that took the index from below it */
		DS_THRESHOLD_EQUAL,   /* only the one that left the index equal to it */
	} threshold;
	bool compare_before_increment; /* the index compared is that of the record itself */

	bool interrupt_when_circular; /* BTINT = 0 with a threshold that can be reached */

	/* The CPL that BTS_OFF_OS and BTS_OFF_USR judge a change of privilege by. */
	enum { DS_FILTER_BY_TARGET, DS_FILTER_BY_SOURCE } filter;
};

/*
 * The default. SDM 17.4.9.5 tells an interrupt handler that the index "matches or exceeds" the
 * threshold, and warns that clearing BTINT is not enough to prevent an interrupt. With BTS_OFF_OS,
 * branches into CPL 0 have been seen to be suppressed and branches out of it recorded.
 */
extern const struct ds_behaviour ds_behaviour_default;

#endif

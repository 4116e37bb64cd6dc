/* SPDX-License-Identifier: MIT */
/*
 * Values for what the manual leaves open about BTS: each field is a point on which processors may
 * differ without contradicting the SDM (Vol 3, 17.4.4 to 17.4.9; 10.5.1 for the interrupt). The
 * first choice of each is the default. variants.c holds their names.
 */
#pragma once

struct ds_behaviour {
	/* Whether a record still fits at the index. */
	enum {
		DS_ROOM_WHOLE_RECORD, /* index + 24 <= absolute maximum */
		DS_ROOM_BELOW, /* index + 24 < absolute maximum: a multiple loses its last slot */
		DS_ROOM_ANY_BYTE, /* index < absolute maximum: may write up to 23 bytes past it */
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

	/* BTINT = 1: whether a record that finds the buffer full asks for the interrupt as well: as
	   the index is, or "an interrupt when the BTS buffer is full" (17.4.1). */
	enum { DS_BTINT_STORED, DS_BTINT_THRESHOLD, DS_BTINT_FULL } btint;

	/* Which stored record asks for the interrupt. */
	enum {
		DS_THRESHOLD_REACHED, /* every one that leaves the index at or past the threshold */
		DS_THRESHOLD_CROSSED, /* only the one that took the index from below it */
		DS_THRESHOLD_EQUAL,   /* only the one that left the index equal to it */
	} threshold;

	/* The index that is compared: the one after the record, or that of the record itself. */
	enum { DS_COMPARE_AFTER, DS_COMPARE_BEFORE } compare;

	/* BTINT = 0 with a threshold that can be reached. */
	enum { DS_CIRCULAR_INTERRUPTS, DS_CIRCULAR_IS_SILENT } circular;

	/* Branches between the record that asks for the interrupt and its delivery. */
	enum { DS_SKID_NONE, DS_SKID_SHORT, DS_SKID_LONG } skid;

	/* Whose CPL BTS_OFF_OS and BTS_OFF_USR judge a change of privilege by. */
	enum {
		DS_FILTER_BY_TARGET,
		DS_FILTER_BY_SOURCE,
		DS_FILTER_BY_BOTH,   /* recorded if both ends are wanted */
		DS_FILTER_BY_EITHER, /* recorded if one is */
	} filter;

	/* The entry into a #DB handler, which the LBR stack leaves out. */
	enum { DS_DEBUG_RECORDED, DS_DEBUG_NOT_RECORDED } debug;

	/* INT n, INT3: what is stored as `from`. */
	enum {
		DS_SOFTWARE_FROM_INSTRUCTION,
		DS_SOFTWARE_FROM_NEXT,
		DS_SOFTWARE_NOT_RECORDED
	} software;

	/* Bit 4 of the flags, which Core and Atom do not support. By history: where this branch
	   followed the one before when that was last taken, which is what a predictor would have
	   said. */
	enum {
		DS_PREDICTED_CLEAR,
		DS_PREDICTED_SET,
		DS_PREDICTED_MIXED,
		DS_PREDICTED_BY_HISTORY
	} predicted;

	/* A reserved bit of IA32_DEBUGCTL. */
	enum { DS_RESERVED_FAULTS, DS_RESERVED_IGNORED, DS_RESERVED_KEPT } reserved;

	/* LBR together with TR: Core cannot have both. */
	enum { DS_LBR_KEPT, DS_LBR_DROPPED, DS_LBR_FAULTS } lbr;

	/* An interrupt while the mask bit is set: SDM Vol 3, 10.5.1, says that it is inhibited, not
	   whether it arrives once the bit is clear, if IA32_PERF_GLOBAL_STATUS still shows its
	   cause; nor whether that status alone interrupts then. */
	enum { DS_MASKED_LOST, DS_MASKED_WAITS, DS_MASKED_STATUS } masked;

	/* IA32_PERF_GLOBAL_STATUS.OvfBuf when the threshold is reached. */
	enum { DS_STATUS_CLEAR, DS_STATUS_SET } status;

	/* A page of buffer or area without Accessed and Dirty, which software must set before. */
	enum { DS_DIRTY_SET, DS_DIRTY_LEFT_CLEAR, DS_DIRTY_DROPS_RECORD } dirty;

	/* Under a hypervisor that gives memory to its guest late, or takes it back: whether a store
	   faults in its page tables in the midst of a record. Restarted, it leaves no trace. */
	enum { DS_FAULT_NONE, DS_FAULT_RESTARTS } fault;

	/* CPUID.1:ECX[4], and with it bits 9 and 10 of IA32_DEBUGCTL; CPUID.1:ECX[2]. */
	enum { DS_CPL_FILTERS, DS_CPL_ABSENT } ds_cpl;
	enum { DS_DTES64, DS_DTES64_ABSENT } dtes64;
};

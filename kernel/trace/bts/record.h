/* SPDX-License-Identifier: MIT */
/*
 * Records in rings: branches as the hardware writes them, and stamps that look like no branch:
 * from = ~0FH | qualifier, to = time-stamp counter, flags = pid | cpu << 32 | STAMP_FLAG; of a gap,
 * to = the number of records that are missing. No code runs in the last 16 bytes of the address
 * space; but a jump there from ring 3 faults, and the record of that fault has it as `from`. Of the
 * flags hardware sets bit 4 at most, for a branch that it predicted (SDM Vol 3, figure 17-9).
 */
#pragma once

#include "abi/ptrace_bts.h"
#include "drivers/clock/tsc.h"
#include "drivers/ds/area.h"
#include "kernel/trace/trace.h"

#define STAMP_ESCAPE (~0xfull)
#define STAMP_FLAG   (1ull << 63)

/* In the flags of a branch of ring 3 into the kernel's half that ring 3's view has as well. */
#define BRANCH_SHOWN (1ull << 62)

static inline bool record_is_stamp(const struct bts_struct *record)
{
	return record->from >= STAMP_ESCAPE && record->flags & STAMP_FLAG;
}

/* Whether a tracer with `view` is to see it. */
static inline bool record_in_view(const struct bts_struct *record, unsigned view)
{
	bool from = record->from >> 63, to = record->to >> 63; /* the kernel's half */

	if (view == (TRACE_USER | TRACE_KERNEL) || record_is_stamp(record))
		return true;
	if (record->flags & BRANCH_SHOWN)
		return view == TRACE_USER;
	return from == to && view == (from ? TRACE_KERNEL : TRACE_USER);
}

/* A branch of ring 3 into the kernel's half: by a transition, or by a jump that faults there. */
static inline bool record_enters_kernel(const struct bts_struct *record)
{
	return !(record->from >> 63) && record->to >> 63;
}

/* The stamp of now. */
static inline struct bts_struct record_stamp(unsigned qualifier, unsigned pid, unsigned cpu)
{
	return (struct bts_struct){.qualifier = BTS_BRANCH,
				   .from = STAMP_ESCAPE | qualifier,
				   .to = tsc_read(),
				   .flags = pid | (uint64_t)cpu << 32 | STAMP_FLAG};
}

/* A gap of `number` records; 0: of an unknown number. */
static inline struct bts_struct record_gap(uint64_t number)
{
	return (struct bts_struct){.qualifier = BTS_BRANCH,
				   .from = STAMP_ESCAPE | PTRACE_BTS_GAP,
				   .to = number,
				   .flags = STAMP_FLAG};
}

/* The record in the form of the interface. */
static inline struct ptrace_bts_record record_for_reader(const struct bts_struct *record)
{
	if (record_is_stamp(record))
		return (struct ptrace_bts_record){.qualifier = record->from & ~STAMP_ESCAPE,
						  .tsc = record->to,
						  .pid_cpu = record->flags & ~STAMP_FLAG};
	return (struct ptrace_bts_record){
		.qualifier = PTRACE_BTS_BRANCH, .from = record->from, .to = record->to};
}

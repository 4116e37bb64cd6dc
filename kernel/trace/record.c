// SPDX-License-Identifier: MIT
#include "kernel/trace/record.h"

#include "drivers/clock/tsc.h"

struct bts_struct record_stamp(unsigned qualifier, unsigned pid, unsigned cpu)
{
	return (struct bts_struct){.qualifier = BTS_BRANCH,
				   .from = STAMP_ESCAPE | qualifier,
				   .to = tsc_read(),
				   .flags = pid | (uint64_t)cpu << 32 | STAMP_FLAG};
}

struct bts_struct record_gap(uint64_t number)
{
	return (struct bts_struct){.qualifier = BTS_BRANCH,
				   .from = STAMP_ESCAPE | PTRACE_BTS_GAP,
				   .to = number,
				   .flags = STAMP_FLAG};
}

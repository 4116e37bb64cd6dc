// SPDX-License-Identifier: MIT
#include "kernel/trace/record.h"

#include "drivers/clock/tsc.h"
#include "kernel/trace/trace.h"

static bool in_kernel_range(uint64_t address)
{
	return address >> 63;
}

bool record_in_view(const struct bts_struct *record, unsigned view)
{
	bool from = in_kernel_range(record->from), to = in_kernel_range(record->to);

	if (record_is_stamp(record) || view == (TRACE_USER | TRACE_KERNEL))
		return true;
	return from == to && view == (from ? TRACE_KERNEL : TRACE_USER);
}

struct bts_struct record_stamp(unsigned qualifier, unsigned pid, unsigned cpu)
{
	return (struct bts_struct){.qualifier = BTS_BRANCH,
				   .from = STAMP_ESCAPE | qualifier,
				   .to = tsc_read(),
				   .flags = pid | (uint64_t)cpu << 32 | STAMP_FLAG};
}

struct ptrace_bts_record record_for_reader(const struct bts_struct *record)
{
	if (record_is_stamp(record))
		return (struct ptrace_bts_record){.qualifier = record->from & ~STAMP_ESCAPE,
						  .tsc = record->to,
						  .pid_cpu = record->flags & ~STAMP_FLAG};
	return (struct ptrace_bts_record){
		.qualifier = PTRACE_BTS_BRANCH, .from = record->from, .to = record->to};
}
